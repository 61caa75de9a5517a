"""The bundle of a recorded sweep, and the one that is shipped."""

from dataclasses import replace
from pathlib import Path

import pytest

from pega_tune.autotune.replay.bundling import bundle_recording
from pega_tune.errors import DataError
from pega_tune.profiles.bundle.document import Bundle
from pega_tune.profiles.bundle.files import read_bundle
from pega_tune.profiles.bundle.packaged import file_name
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.sources import PACKAGED
from pega_tune.profiles.policy.terms import ProfileState, Tier
from tests.helpers.recordings import STANDARD, load
from tests.helpers.ship import ship


@pytest.fixture(scope="module")
def shipped_anew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ship(STANDARD, tmp_path_factory.mktemp("shipped") / "bundled")


@pytest.fixture(scope="module")
def made(shipped_anew: Path) -> Bundle:
    return read_bundle(shipped_anew)


def test_it_is_of_the_device_and_the_sweep_that_were_recorded(made: Bundle, shipped_anew: Path) -> None:
    recorded = load().sweep
    assert made.device.identity == recorded.device.identity
    assert (made.device.uuid, made.sweep_id) == (recorded.device.uuid, recorded.sweep_id)
    assert (made.state, made.device.replayed) == (ProfileState.PUBLISHED, False)
    assert recorded.started_at < made.created_at
    assert shipped_anew.name == file_name(recorded.device)


def test_it_answers_for_another_board_of_the_class(made: Bundle, shipped_anew: Path, tmp_path: Path) -> None:
    device = replace(made.device, uuid="GPU-elsewhere")
    answerer = Auto.for_device(device, tmp_path / "absent.db", packaged=shipped_anew.parent)
    decision = answerer.decide(16384, 64 << 20, "h2d", colocation="idle", objective="throughput")
    assert (decision.tier, decision.profile) == (Tier.BUNDLED, made.profile_id)
    assert decision.predicted.time_s is not None


def test_what_is_shipped_is_what_the_recording_makes(made: Bundle) -> None:
    shipped = read_bundle(PACKAGED / file_name(made.device))
    assert replace(shipped, compiled=b"", policy=made.policy, profile_id="") == replace(
        made, compiled=b"", profile_id=""
    )
    assert len(shipped.policy.tables) == len(made.policy.tables)
    for ours, theirs in zip(shipped.policy.tables, made.policy.tables, strict=True):
        assert replace(ours, cells=theirs.cells, margin=0.0) == replace(theirs, margin=0.0)
        for mine, its in zip(ours.cells, theirs.cells, strict=True):
            # The last digit of a fitted time may depend on the build of numpy.
            assert [option.plan for option in mine] == [option.plan for option in its]
            times = [option.predicted.time_s for option in its]
            assert [option.predicted.time_s for option in mine] == pytest.approx(times, rel=1e-3)


def test_a_recording_with_a_gap_makes_none() -> None:
    whole = load()
    with pytest.raises(DataError) as caught:
        bundle_recording(replace(whole, blocks=whole.blocks[:-1]))
    assert "1 of" in caught.value.message
