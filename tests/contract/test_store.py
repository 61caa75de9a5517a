"""What every store does, whatever it is made of."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from pega_tune.errors import DataError, UsageError
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.terms import Colocation, ProfileState
from pega_tune.profiles.store.errors import NotFoundError, SweepRunningError, ValueRefusedError
from pega_tune.profiles.store.records import (
    EvidenceKind,
    EvidenceRecord,
    FitRecord,
    MeasurementRecord,
    Metric,
    SweepState,
)
from pega_tune.profiles.store.store import Store
from tests.helpers.places import KINDS, Place, server_place, sqlite_place
from tests.helpers.store import (
    HOST,
    NOW,
    SIMULATED,
    block_record,
    cell_record,
    claim_for_parent,
    host_view,
    in_processes,
    open_and_add_blocks,
    profile_record,
    serving_block,
    sweep_record,
)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "postgresql":
        return server_place(request.getfixturevalue("postgresql"))
    return sqlite_place(request.param, tmp_path / "new folder" / "store.db")


@pytest.fixture
def url(place: Place) -> str:
    return place.url


@pytest.fixture
def mounts(place: Place) -> str:
    return place.mounts


@pytest.fixture
def store(url: str, mounts: str) -> Iterator[Store]:
    with Store.open(url, host=host_view(mounts)) as opened:
        yield opened


@pytest.fixture
def dead_pid() -> int:
    """Id of a process that has just ended."""
    return int(subprocess.check_output([sys.executable, "-c", "import os; print(os.getpid())"]))


class TestSweeps:
    def test_comes_back_as_it_went_in(self, store: Store) -> None:
        record = sweep_record(reasons=("because",), seconds=1.25)
        store.add_sweep(record)
        summary = store.sweep("aa11")
        assert summary.sweep == record
        assert (summary.blocks, summary.cells, summary.profile_id) == (0, 0, None)

    def test_survives_reopening(self, store: Store, url: str, mounts: str) -> None:
        store.add_sweep(sweep_record())
        store.close()
        with Store.open(url, create=False, host=host_view(mounts)) as again:
            assert again.sweep("aa11").sweep == sweep_record()

    def test_counts_what_it_has_stored(self, store: Store) -> None:
        for sweep_id, keys in (("aa11", ["b1", "b2"]), ("bb22", ["b1"])):
            store.add_sweep(sweep_record(sweep_id))
            for key in keys:
                store.add_block(sweep_id, block_record(key))
        store.add_profile(profile_record("ff01"))
        store.add_profile(profile_record("ff02", created_at=NOW + timedelta(hours=1)))
        first, second = store.sweep("aa11"), store.sweep("bb22")
        assert (first.blocks, first.cells, first.profile_id) == (2, 6, "ff02")
        assert (second.blocks, second.cells, second.profile_id) == (1, 3, None)

    def test_newest_first(self, store: Store) -> None:
        for number, sweep_id in enumerate(("aa", "cc", "bb")):
            store.add_sweep(sweep_record(sweep_id, started_at=NOW + timedelta(seconds=number)))
        assert [summary.sweep.sweep_id for summary in store.sweeps()] == ["bb", "cc", "aa"]

    def test_update_replaces_state_reasons_and_seconds(self, store: Store) -> None:
        store.add_sweep(sweep_record(reasons=("old",)))
        store.update_sweep("aa11", state=SweepState.FINISHED, reasons=("new",), seconds=2.5)
        sweep = store.sweep("aa11").sweep
        assert (sweep.state, sweep.reasons, sweep.seconds) == (SweepState.FINISHED, ("new",), 2.5)
        assert (sweep.pid, sweep.host) == (os.getpid(), HOST)

    def test_same_id_twice_is_refused(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        with pytest.raises(ValueRefusedError, match="refuses the record"):
            store.add_sweep(sweep_record(preset="standard"))
        assert store.sweep("aa11").sweep.preset == "quick"

    def test_a_board_in_a_new_host_is_still_the_same_board(self, store: Store, place: Place) -> None:
        store.add_sweep(sweep_record())
        identity = replace(sweep_record().device.identity, host_cpu="Another CPU")
        moved = replace(
            sweep_record().device, identity=identity, provenance=replace(sweep_record().device.provenance, host="lab-8")
        )
        store.add_sweep(sweep_record("bb22", device=moved))
        assert place.rows("SELECT host, class_id FROM board") == [("lab-8", moved.class_id)]
        assert len(place.rows("SELECT class_id FROM device")) == 2
        assert store.sweep("aa11").sweep.device == sweep_record().device


class TestPrefixes:
    def test_unique_beginning_is_enough(self, store: Store) -> None:
        store.add_sweep(sweep_record("abc1"))
        store.add_sweep(sweep_record("abd2"))
        assert store.sweep("abc").sweep.sweep_id == "abc1"

    def test_whole_id_wins_over_a_longer_one(self, store: Store) -> None:
        store.add_sweep(sweep_record("abc"))
        store.add_sweep(sweep_record("abcd"))
        assert store.sweep("abc").sweep.sweep_id == "abc"

    def test_ambiguous_beginning_names_the_candidates(self, store: Store) -> None:
        store.add_sweep(sweep_record("abc1"))
        store.add_sweep(sweep_record("abd2"))
        with pytest.raises(NotFoundError, match="abc1, abd2"):
            store.sweep("ab")

    def test_an_empty_text_is_no_beginning(self, store: Store) -> None:
        store.add_sweep(sweep_record("abc1"))
        with pytest.raises(UsageError, match="an empty text names no sweep"):
            store.sweep("")

    @pytest.mark.parametrize("prefix", ["zz", "%", "_bc1", "ABX"])
    def test_nothing_of_that_name(self, store: Store, prefix: str) -> None:
        store.add_sweep(sweep_record("abc1"))
        with pytest.raises(NotFoundError) as caught:
            store.sweep(prefix)
        assert "sweeps list" in caught.value.hint

    def test_unknown_sweep_is_refused_everywhere(self, store: Store) -> None:
        calls = (
            lambda: store.add_block("nope", block_record()),
            lambda: store.blocks("nope"),
            lambda: store.claim("nope", 1, HOST),
            lambda: store.update_sweep("nope", state=SweepState.FAILED, seconds=0.0),
            lambda: store.add_profile(profile_record(sweep_id="nope")),
            lambda: store.profile("nope"),
        )
        for call in calls:
            with pytest.raises(NotFoundError, match="nope"):
                call()


class TestBlocks:
    def test_come_back_as_they_went_in_and_in_order(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        stored = [block_record("z"), serving_block("a"), block_record("m", cells=())]
        for record in stored:
            assert store.add_block("aa11", record)
        assert list(store.blocks("aa11")) == stored
        wanted = {stored[-1].key, "unknown"}
        assert list(store.blocks("aa11", wanted)) == stored[-1:]
        assert list(store.blocks("aa11", ())) == []
        assert store.finished_blocks("aa11") == {"z", "a", "m"}

    def test_second_write_of_a_key_is_ignored(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        store.add_block("aa11", block_record(seconds=1.0))
        assert not store.add_block("aa11", block_record(seconds=2.0))
        assert [block.seconds for block in store.blocks("aa11")] == [1.0]

    def test_same_key_in_another_sweep_is_another_block(self, store: Store) -> None:
        for sweep_id in ("aa11", "bb22"):
            store.add_sweep(sweep_record(sweep_id))
            assert store.add_block(sweep_id, block_record())

    def test_all_or_nothing(self, store: Store, place: Place) -> None:
        store.add_sweep(sweep_record())
        twice = block_record(cells=(cell_record("same"), cell_record("same")))
        with pytest.raises(ValueRefusedError):
            store.add_block("aa11", twice)
        assert store.finished_blocks("aa11") == frozenset()
        assert place.rows("SELECT * FROM cell") == []
        assert store.add_block("aa11", block_record())

    def test_reading_holds_up_no_writer(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        for key in ("b1", "b2"):
            store.add_block("aa11", block_record(key))
        seen = []
        for block in store.blocks("aa11"):
            seen.append(block.key)
            store.add_block("aa11", block_record(f"{block.key} again"))
        assert seen == ["b1", "b2"]


class TestProfiles:
    def test_comes_back_as_it_went_in(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        record = profile_record(state=ProfileState.DRAFT, reasons=("throttled", "no second pass"))
        store.add_profile(record)
        assert store.profile("ff") == record
        assert store.profiles() == (record,)

    def test_newest_first(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        # The same instant is later text in an eastern time zone; order is by time all the same.
        east = datetime(2026, 11, 30, 14, 0, tzinfo=timezone(timedelta(hours=2)))
        store.add_profile(profile_record("f1", created_at=east))
        store.add_profile(profile_record("f2", created_at=NOW + timedelta(microseconds=1)))
        assert [profile.profile_id for profile in store.profiles()] == ["f2", "f1"]

    def test_rests_on_the_verified_plan_cells(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        store.add_block("aa11", block_record("b1"))
        unverified = cell_record("unverified", verified=False)
        store.add_block("aa11", block_record("b2", cells=(cell_record("one"), unverified)))
        store.add_sweep(sweep_record("bb22"))
        store.add_block("bb22", block_record("b3"))
        store.add_profile(profile_record())
        evidence = store.evidence("ff01")
        assert [(e.block_key, e.cell) for e in evidence] == [("b1", "kernel"), ("b2", "one")]
        assert {(e.kind, e.recorded_at) for e in evidence} == {(EvidenceKind.CELL, profile_record().created_at)}

    def test_later_checks_come_after_the_cells(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        store.add_block("aa11", block_record("b1"))
        store.add_profile(profile_record("ff01"))
        cells = store.evidence("ff01")
        checks = [EvidenceRecord(EvidenceKind.CANARY, NOW, verdict=verdict, detail="{}") for verdict in ("a", "b")]
        for check in checks:
            store.add_check("ff01", check)
        assert store.evidence("ff01") == (*cells, *checks)
        with pytest.raises(NotFoundError):
            store.add_check("ee", checks[0])
        with pytest.raises(ValueRefusedError, match="is no cell"):
            store.add_check("ff01", EvidenceRecord(EvidenceKind.CELL, NOW))

    def test_digest_must_be_that_of_the_tables(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        with pytest.raises(ValueRefusedError, match="digest"):
            store.add_profile(profile_record(digest="0" * 64))

    def test_simulated_for_ever(self, store: Store, place: Place) -> None:
        store.add_sweep(sweep_record(device=SIMULATED))
        store.add_profile(profile_record(device=SIMULATED))
        assert place.rows("SELECT simulated, board_uuid FROM profile") == [(1, "sim:h200")]
        assert place.rows("SELECT simulated FROM device") == [(1,)]


class TestValues:
    def test_numpy_numbers_become_plain_ones(self, store: Store, place: Place) -> None:
        store.add_sweep(sweep_record(seed=np.int64(5), seconds=np.float32(0.5), planned_blocks=np.uint8(3)))
        cell = cell_record(
            verified=np.bool_(True),
            measurements=(MeasurementRecord(Metric.TRANSFER, tuple(np.array([0.5, 0.25], dtype=np.float32))),),
        )
        shape = TransferShape(np.int32(7), np.int64(2**40))  # type: ignore[arg-type]
        store.add_block("aa11", block_record(shape=shape, seed=np.uint64(9), seconds=np.float64(1.5), cells=(cell,)))
        store.add_profile(
            profile_record(fits=(FitRecord("f", "h2d", Colocation.IDLE, "m", {"a": np.float32(0.5)}, 0.0),))
        )
        # Neither database changes the type of a value on its way to a plain client.
        assert typed(place.rows("SELECT seed, seconds FROM sweep")) == [(5, int), (0.5, float)]
        columns = "total_bytes, merged_ranges, seed, seconds"
        assert typed(place.rows(f"SELECT {columns} FROM block")) == [(2**40, int), (7, int), (9, int), (1.5, float)]
        ((count, samples),) = place.rows("SELECT count, samples FROM measurement")
        assert (count, type(samples), len(samples)) == (2, bytes, 16)
        (block,) = store.blocks("aa11")
        assert block.cells[0].measurements[0].samples == (0.5, 0.25)

    def test_samples_are_little_endian_float64(self, store: Store, place: Place) -> None:
        store.add_sweep(sweep_record())
        cell = cell_record(measurements=(MeasurementRecord(Metric.TRANSFER, (1.0,)),))
        store.add_block("aa11", block_record(cells=(cell,)))
        assert place.rows("SELECT samples FROM measurement") == [(b"\0\0\0\0\0\0\xf0\x3f",)]

    @pytest.mark.parametrize(
        ("field", "record"),
        [
            ("block.seed", block_record(seed=2**63)),
            ("block.seed", block_record(seed=np.uint64(2**63))),
            ("block.sm_clock_hz", block_record(sm_clock_hz=2**63)),
            ("block.temperature_c", block_record(temperature_c=2**31)),
            ("block.seconds", block_record(seconds=float("nan"))),
            ("block.period_s", block_record(period_s=float("inf"))),
            ("block.temperature_c", block_record(temperature_c=54.5)),
            ("block.decode", block_record(decode=b"raw")),
            (
                "transfer samples of cell kernel",
                block_record(cells=(cell_record(measurements=(MeasurementRecord(Metric.TRANSFER, (1.0, np.nan)),)),)),
            ),
        ],
    )
    def test_what_does_not_fit_is_refused_by_name(self, store: Store, field: str, record: object) -> None:
        store.add_sweep(sweep_record())
        with pytest.raises(ValueRefusedError) as caught:
            store.add_block("aa11", record)  # type: ignore[arg-type]
        assert isinstance(caught.value, DataError)
        assert caught.value.message.startswith(field)
        assert store.finished_blocks("aa11") == frozenset()

    @pytest.mark.parametrize(
        ("field", "fit"),
        [
            ("fit.parameters.a0", FitRecord("f", "h2d", Colocation.IDLE, "m", {"a0": float("nan")}, 0.1)),
            ("fit.residual", FitRecord("f", "h2d", Colocation.IDLE, "m", {"a0": 1.0}, float("inf"))),
        ],
    )
    def test_a_fit_that_diverged_is_no_number(self, store: Store, field: str, fit: FitRecord) -> None:
        store.add_sweep(sweep_record())
        with pytest.raises(ValueRefusedError, match=field):
            store.add_profile(profile_record(fits=(fit,)))
        assert store.profiles() == ()

    def test_a_fit_without_residual_says_why(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        with pytest.raises(ValueRefusedError, match="ck_fit_residual"):
            store.add_profile(profile_record(fits=(FitRecord("f", "h2d", Colocation.IDLE, "m"),)))

    def test_a_time_without_a_zone_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueRefusedError, match=r"sweep\.started_at"):
            store.add_sweep(sweep_record(started_at=NOW.replace(tzinfo=None)))


class TestInterruption:
    def test_running_while_its_process_lives(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        assert store.sweep("aa11").sweep.state is SweepState.RUNNING

    def test_interrupted_once_its_process_is_gone(self, store: Store, place: Place, dead_pid: int) -> None:
        store.add_sweep(sweep_record(pid=dead_pid))
        for summary in (store.sweep("aa11"), *store.sweeps()):
            assert summary.sweep.state is SweepState.INTERRUPTED
            assert str(dead_pid) in summary.sweep.reasons[-1]
        assert place.rows("SELECT state FROM sweep") == [("running",)]

    def test_another_process_with_the_same_id_is_not_it(self, store: Store, url: str, mounts: str) -> None:
        store.add_sweep(sweep_record())
        with Store.open(url, host=host_view(mounts, process_token="{}, started later".format)) as later:
            assert later.sweep("aa11").sweep.state is SweepState.INTERRUPTED

    @pytest.mark.parametrize(("minutes", "state"), [(14, SweepState.RUNNING), (16, SweepState.INTERRUPTED)])
    def test_on_another_host_silence_decides(
        self, store: Store, url: str, mounts: str, minutes: int, state: SweepState
    ) -> None:
        store.add_sweep(sweep_record(host="elsewhere"))
        later = NOW + timedelta(minutes=minutes)
        with Store.open(url, host=host_view(mounts, now=lambda: later)) as observer:
            assert observer.sweep("aa11").sweep.state is state

    def test_a_stored_block_breaks_the_silence(self, store: Store, url: str, mounts: str) -> None:
        store.add_sweep(sweep_record(host="elsewhere"))
        with Store.open(url, host=host_view(mounts, now=lambda: NOW + timedelta(minutes=10))) as runner:
            runner.add_block("aa11", block_record())
        with Store.open(url, host=host_view(mounts, now=lambda: NOW + timedelta(minutes=20))) as observer:
            assert observer.sweep("aa11").sweep.state is SweepState.RUNNING

    @pytest.mark.parametrize("state", [SweepState.FINISHED, SweepState.FAILED, SweepState.INTERRUPTED])
    def test_what_has_ended_stays_as_it_ended(self, store: Store, dead_pid: int, state: SweepState) -> None:
        store.add_sweep(sweep_record(pid=dead_pid, state=state))
        assert store.sweep("aa11").sweep == sweep_record(pid=dead_pid, state=state)


class TestClaims:
    def test_a_live_sweep_is_not_given_away(self, store: Store) -> None:
        store.add_sweep(sweep_record())
        with pytest.raises(SweepRunningError, match=rf"is still running \(pid {os.getpid()}\)"):
            store.claim("aa11", os.getpid(), HOST)

    @pytest.mark.parametrize("state", [SweepState.INTERRUPTED, SweepState.FAILED])
    def test_a_sweep_that_stopped_goes_on(self, store: Store, state: SweepState) -> None:
        store.add_sweep(sweep_record(state=state, reasons=("stopped",), seconds=3.0))
        claimed = store.claim("aa11", os.getpid(), HOST)
        assert claimed == sweep_record(seconds=3.0)
        assert store.sweep("aa11").sweep == claimed

    def test_a_dead_sweep_goes_on(self, store: Store, dead_pid: int) -> None:
        store.add_sweep(sweep_record(pid=dead_pid))
        assert store.claim("aa11", os.getpid(), HOST).pid == os.getpid()

    def test_a_whole_sweep_has_nothing_left(self, store: Store) -> None:
        store.add_sweep(sweep_record(state=SweepState.FINISHED, planned_blocks=1))
        store.add_block("aa11", block_record())
        with pytest.raises(SweepRunningError, match="finished"):
            store.claim("aa11", os.getpid(), HOST)

    def test_a_finished_sweep_with_holes_goes_on(self, store: Store) -> None:
        store.add_sweep(sweep_record(state=SweepState.FINISHED, planned_blocks=2))
        store.add_block("aa11", block_record())
        assert store.claim("aa11", os.getpid(), HOST).state is SweepState.RUNNING

    def test_of_several_claimants_one_wins(self, store: Store, url: str, mounts: str, dead_pid: int) -> None:
        store.add_sweep(sweep_record(pid=dead_pid))
        codes = in_processes(claim_for_parent, [(url, mounts, "aa11")] * 4)
        assert sorted(codes) == [0, 3, 3, 3]


class TestSharing:
    def test_two_writers_lose_nothing(self, store: Store, url: str, mounts: str) -> None:
        keys = [f"b{number}" for number in range(25)]
        assert in_processes(open_and_add_blocks, [(url, mounts, "aa11", keys), (url, mounts, "bb22", keys)]) == [0, 0]
        for sweep_id in ("aa11", "bb22"):
            assert [block.key for block in store.blocks(sweep_id)] == keys

    def test_a_reader_sees_what_another_store_wrote(self, store: Store, url: str, mounts: str) -> None:
        with Store.open(url, read_only=True, host=host_view(mounts)) as reader:
            assert reader.sweeps() == ()
            store.add_sweep(sweep_record())
            assert reader.sweep("aa11").sweep == sweep_record()
            with pytest.raises(DataError, match="reading only"):
                reader.add_sweep(sweep_record("bb22"))


def typed(found: list[tuple[object, ...]]) -> list[tuple[object, type]]:
    """The values of the one row found, each with its type."""
    (row,) = found
    return [(value, type(value)) for value in row]
