"""What is particular to the simulated engine: its noise, its faults, its names."""

import json
import multiprocessing
import signal
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from math import log
from typing import Any

import pytest

from pega_tune.autotune.engine import (
    Conditions,
    EngineLostError,
    MemoryLimitError,
    Phase,
    SamplingLimits,
    Status,
    TransferBlock,
)
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.measuring.cells import flags_of
from pega_tune.autotune.sim.devices import SimFactory, sim_factory, sim_names
from pega_tune.autotune.sim.engine import SLOW_BLOCK_S, SimEngine
from pega_tune.autotune.sim.faults import SimFaults
from pega_tune.autotune.sim.model import TransferModel
from pega_tune.autotune.sim.parameters import load_parameters
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import Backend, CopyPlan
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.store.records import BlockFlag
from tests.helpers.engines import WARP, transfer_block


def _engine(name: str = "sim:h200") -> SimEngine:
    return sim_factory(name)()


def test_equal_blocks_give_equal_measurements() -> None:
    assert list(_engine().transfer(transfer_block())) == list(_engine().transfer(transfer_block()))


def test_noise_depends_on_the_seed_and_is_about_one_percent() -> None:
    limits = SamplingLimits(budget_s=1e9, min_rounds=400, max_rounds=400)
    one, other = (list(_engine().transfer(transfer_block(plans=(WARP,), limits=limits, seed=s))) for s in (1, 2))
    assert one != other
    times = [log(m.transfer_s) for m in one if m.candidate == 1 and m.phase is Phase.TIMED]
    block = transfer_block()
    expected = TransferModel(load_parameters("h200")).times(WARP, block.shape).transfer_s
    assert statistics.stdev(times) == pytest.approx(0.01, rel=0.15)
    assert statistics.fmean(times) == pytest.approx(log(expected), abs=0.002)


def _fastest_s(engine: SimEngine, block: TransferBlock, candidate: int) -> float:
    return min(m.transfer_s for m in engine.transfer(block) if m.candidate == candidate and m.phase is Phase.TIMED)


def test_contiguous_ranges_merge_for_all_but_the_kernel_of_raw_ranges() -> None:
    limits = SamplingLimits(budget_s=0.0, min_rounds=3, max_rounds=3, drop_ratio=1e9)
    shuffled = transfer_block(TransferShape(1024, 1024 * 4096, Direction.H2D), limits=limits)
    contiguous = replace(shuffled, layout=NamedLayout.parse("contiguous"))
    direct_s, block_s = ([_fastest_s(_engine(), b, i) for b in (shuffled, contiguous)] for i in (1, 3))
    assert direct_s[0] > 10 * direct_s[1]
    assert block_s[0] == pytest.approx(block_s[1], rel=0.1)


def test_structure_that_the_layout_does_not_have_is_no_plan() -> None:
    block = transfer_block(plans=(CopyPlan(Backend.PITCHED), WARP))
    statuses = {m.status for m in _engine().transfer(block) if m.candidate == 1}
    strided = replace(block, layout=NamedLayout.parse("strided"))
    assert statuses == {Status.UNSUPPORTED}
    assert {m.status for m in _engine().transfer(strided) if m.candidate == 1} == {Status.OK}


def test_it_is_marked_as_simulated() -> None:
    facts = _engine().facts
    assert facts.simulated
    assert facts.uuid == "sim:h200"
    assert facts.class_id.startswith("sim-")
    assert "simulated" in facts.provenance.name
    assert _engine("sim:h200+throttled").facts == facts


def test_it_looks_like_an_h200() -> None:
    capabilities = _engine().capabilities()
    identity = _engine().facts.identity
    assert (identity.compute_capability, identity.sm_count, identity.copy_engines) == ((9, 0), 132, 3)
    assert capabilities.priorities == (0, -1, -2, -3, -4, -5)
    assert (capabilities.device_bytes, capabilities.host_bytes) == (128 << 30, 64 << 30)
    assert capabilities.other_processes == ()
    sizes = capabilities.partitions.sizes
    assert sizes is not None
    assert (sizes.least_sms, sizes.step_sms, sizes.most_sms) == (8, 8, 128)
    assert (capabilities.batch.signature, capabilities.copy_engines) == ("v2", 3)


@pytest.mark.parametrize("sms", [4, 12, 132])
def test_a_partition_of_another_size_is_unsupported(sms: int) -> None:
    block = transfer_block(plans=(replace(WARP, sm_partition=sms), replace(WARP, sm_partition=16)))
    measurements = list(_engine().transfer(block))
    assert [(m.status, str(sms) in m.detail) for m in measurements if m.candidate == 1] == [(Status.UNSUPPORTED, True)]
    assert {m.status for m in measurements if m.candidate == 2} == {Status.OK}


def test_a_device_without_partitions_refuses_them() -> None:
    engine = SimEngine(replace(load_parameters("h200"), partitions=None))
    assert engine.capabilities().partitions.sizes is None
    measurements = list(engine.transfer(transfer_block(plans=(replace(WARP, sm_partition=8),))))
    assert [m.status for m in measurements if m.candidate == 1] == [Status.UNSUPPORTED]


def test_it_looks_like_an_rtx5090() -> None:
    engine = _engine("sim:rtx5090")
    identity = engine.facts.identity
    assert (identity.compute_capability, identity.sm_count, identity.copy_engines) == ((12, 0), 170, 2)
    assert engine.facts.uuid == "sim:rtx5090"
    assert engine.facts.class_id != _engine().facts.class_id
    block = transfer_block()
    assert {m.status for m in engine.transfer(block)} == {Status.OK}


def test_limits_are_honoured_and_never_raise_what_there_is() -> None:
    small = sim_factory("sim:h200", 1 << 20, 2 << 20)().capabilities()
    assert (small.device_bytes, small.host_bytes) == (1 << 20, 2 << 20)
    large = sim_factory("sim:h200", 1 << 50, 1 << 50)().capabilities()
    assert (large.device_bytes, large.host_bytes) == (128 << 30, 64 << 30)


def test_a_closed_engine_measures_nothing() -> None:
    engine = _engine()
    engine.close()
    with pytest.raises(EngineLostError, match="closed"):
        engine.transfer(transfer_block())


@pytest.mark.parametrize("name", ["h200", "rtx5090"])
def test_every_number_in_the_data_file_has_a_source(name: str) -> None:
    data = json.loads((files("pega_tune.autotune.sim.devices") / f"{name}.json").read_text())
    groups = {name: group for name, group in data.items() if name not in ("source", "facts", "serving")}
    assert len(data["source"]) > 100

    def sources(group: dict[str, Any]) -> Iterator[str]:
        return (text for name, text in group.items() if name.endswith("source"))

    assert groups
    for group_name, group in groups.items():
        assert list(sources(group)), group_name
        assert all(len(text) > 20 for text in sources(group)), group_name
    for number, entry in data["serving"].items():
        assert set(entry) == {"value", "source"}, number
        assert len(entry["source"]) > 20, number


def test_names_of_devices() -> None:
    assert sim_names() == ("sim:h200", "sim:rtx5090")
    assert sim_factory("sim:h200") == SimFactory("h200")


@pytest.mark.parametrize("name", ["sim:", "sim:h100", "sim:../h200", "h200", "sim:H200"])
def test_an_unknown_device_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match="no simulated device") as caught:
        sim_factory(name)
    assert "sim:h200" in caught.value.hint


@pytest.mark.parametrize("name", ["sim:h200+", "sim:h200+melted", "sim:h200+busy+", "sim:h200+slow=2"])
def test_an_unknown_fault_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="fault"):
        sim_factory(name)


def test_faults_are_parsed_together() -> None:
    factory = sim_factory("sim:h200+throttled+crash=h2d/64x+mismatch")
    assert factory.options.faults == SimFaults(throttled=True, crash="h2d/64x", mismatch="")


def _flags(name: str) -> tuple[BlockFlag, ...]:
    return flags_of(_engine(name).conditions())


def test_a_busy_device_shows_before_and_a_contended_one_only_while_it_runs() -> None:
    assert _engine("sim:h200+busy").capabilities().other_processes
    assert not _engine("sim:h200+contended").capabilities().other_processes
    assert _flags("sim:h200+busy") == _flags("sim:h200+contended") == (BlockFlag.CONTENDED,)


def test_a_throttled_device_says_so() -> None:
    assert _flags("sim:h200") == ()
    assert _flags("sim:h200+throttled") == (BlockFlag.THROTTLED,)
    healthy, throttled = (_engine(n).conditions() for n in ("sim:h200", "sim:h200+throttled"))
    assert isinstance(healthy, Conditions)
    assert (throttled.sm_clock_hz or 0) < (healthy.sm_clock_hz or 0)


def test_a_mismatch_takes_the_last_plan_out() -> None:
    measurements = list(_engine("sim:h200+mismatch").transfer(transfer_block()))
    failed = [(m.candidate, m.phase, m.status) for m in measurements if m.status is not Status.OK]
    assert failed == [(3, Phase.VERIFY, Status.MISMATCH)]


def test_a_fault_can_be_narrowed_to_some_blocks() -> None:
    block = transfer_block()
    for name, hit in (("sim:h200+mismatch=test/h2d", True), ("sim:h200+mismatch=test/d2h", False)):
        assert (Status.MISMATCH in {m.status for m in _engine(name).transfer(block)}) is hit


def test_a_crash_kills_the_process_with_the_signal_nobody_can_catch() -> None:
    process = multiprocessing.get_context("spawn").Process(target=_run, args=("sim:h200+crash",))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def _run(name: str) -> None:
    list(_engine(name).transfer(transfer_block()))


def test_a_crash_does_not_strike_where_its_victim_is_excluded() -> None:
    block = replace(transfer_block(), excluded=frozenset({3}))
    assert {m.status for m in _engine("sim:h200+crash").transfer(block)} == {Status.OK}


def test_too_little_memory() -> None:
    engine = _engine("sim:h200+nomem")
    assert engine.capabilities().device_bytes == engine.capabilities().host_bytes == 1 << 20
    with pytest.raises(MemoryLimitError, match="device memory"):
        engine.transfer(replace(transfer_block(), shape=replace(transfer_block().shape, total_bytes=(1 << 20) + 1)))


def test_a_slow_device_takes_real_time() -> None:
    begin = time.monotonic()
    list(_engine("sim:h200+slow").transfer(transfer_block()))
    assert time.monotonic() - begin >= SLOW_BLOCK_S
