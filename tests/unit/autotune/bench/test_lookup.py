"""The benchmark of look-ups: what it asks, whom it asks, and that it asks something."""

from pathlib import Path

import pytest

from pega_tune.autotune.bench.lookup import MANY, SHAPES, LookupShapes, measure
from pega_tune.autotune.bench.lookup_profile import subject_for
from pega_tune.errors import DataError
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.terms import Tier
from tests.unit.profiles.policy.examples import profile


def test_shapes_are_of_their_seed_and_small_enough():
    shapes = LookupShapes(7)
    assert shapes == LookupShapes(7) != LookupShapes(8)
    assert len(shapes.counts) == SHAPES
    assert all(1 <= n <= 65_536 and 256 <= total // n < 4 << 20 and total <= 512 << 20 for n, total in shapes.counts)


def test_every_way_is_timed():
    rows = {row.name: row for row in measure(Auto(profile(), Tier.BOARD), LookupShapes())}
    assert list(rows) == ["dict", "decide", "decide-keywords", "decide-many", "load"]
    assert all(0 < row.median_s < 1 and row.rounds > 1 and row.note for row in rows.values())
    assert f"{MANY:,}" in rows["decide-many"].note


def test_without_a_profile_there_is_none_to_load():
    assert [row.name for row in measure(Auto.rule_only(), LookupShapes())][-1] == "decide-many"


def test_whoever_has_a_profile_is_asked(tmp_path: Path):
    answerer = Auto(profile(), Tier.CLASS)
    subject = subject_for(answerer, tmp_path)
    assert subject.auto is answerer
    assert "class" in subject.source


def test_a_damaged_bundle_is_no_profile(tmp_path: Path):
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(DataError):
        subject_for(Auto.rule_only(), tmp_path)


def test_a_bundle_is_asked_where_nothing_fits():
    subject = subject_for(Auto.rule_only())
    assert subject.auto.profile is not None
    assert subject.auto.profile.device.simulated == ("simulated" in subject.source or "sim:" in subject.source)


def test_a_simulated_device_is_swept_where_there_is_no_bundle(tmp_path: Path):
    subject = subject_for(Auto.rule_only(), tmp_path)
    assert "sweep of sim:h200" in subject.source
    assert subject.auto.profile is not None
    assert subject.auto.profile.device.simulated
