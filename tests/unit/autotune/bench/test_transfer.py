from dataclasses import replace

import pytest

from pega_tune.autotune.bench.transfer import (
    BenchResult,
    Row,
    TransferBenchRequest,
    measure,
    plan_transfer_bench,
)
from pega_tune.autotune.engine import CandidateKind, Engine, Measurement, Phase, TransferBlock
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import Backend, direct
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.store.records import BlockFlag
from tests.helpers.sweeps import capabilities, sim_engine

LAYOUTS = ("contiguous", "strided", "shuffled", "host-ordered", "runs:64")
H2D = (Direction.H2D,)


def _bench(engine: Engine, **asked: object) -> BenchResult:
    request = TransferBenchRequest(**{"directions": H2D, "rounds": 3, **asked})  # type: ignore[arg-type]
    (planned,) = plan_transfer_bench(request, engine.capabilities())
    return measure(planned, engine)


def _by_name(result: BenchResult) -> dict[str, Row]:
    return {row.name: row for row in result.rows}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("direction", list(Direction))
def test_every_rule_every_plan_and_the_ceiling_have_a_row(layout: str, direction: Direction) -> None:
    result = _bench(sim_engine(), layout=NamedLayout.parse(layout), directions=(direction,))
    rows = _by_name(result)
    assert len(rows) == len(result.rows)
    assert rows.keys() >= {rule.name for rule in STATIC_RULES} | {"ceiling"}
    assert {row.kind for row in result.rows} == set(CandidateKind)
    assert {row.status for row in result.rows} == {"ok"}
    assert {row.direction for row in result.rows} == {direction}


def test_rows_are_the_ceiling_then_the_fastest_first() -> None:
    first, *others = _bench(sim_engine()).rows
    times = [row.transfer_s or 0.0 for row in others]
    assert (first.kind, first.ratio_to_ceiling) == (CandidateKind.CEILING, 1.0)
    assert times == sorted(times)
    assert all(row.rounds == 3 for row in others)  # even the hopeless


def test_rates_ratios_and_parts_fit_together() -> None:
    result = _bench(sim_engine(), directions=(Direction.BOTH,))
    ceiling = result.rows[0]
    for row in result.rows:
        assert row.transfer_s
        assert row.bytes_per_s == pytest.approx(2 * 16384 * 4096 / row.transfer_s)
        assert row.ratio_to_ceiling == pytest.approx(ceiling.transfer_s / row.transfer_s)  # type: ignore[operator]
        assert (row.bytes_per_s_without_prepare or 0.0) >= row.bytes_per_s
        assert row.host_s == row.submit_s
        batched = Backend.BATCH in {leg.backend for leg in legs_of(row.plan)}
        assert [row.sm_s is None, row.span_s is None] == [batched] * 2


def test_a_rule_that_launches_what_a_plan_does_shares_its_measurement() -> None:
    rows = _by_name(_bench(sim_engine()))
    for rule, plan in (("pegaflow-direct", "direct"), ("pegaflow-64mib-launches", "pegaflow-kernel")):
        assert rows[rule].same_as == plan
        assert rows[rule].transfer_s == rows[plan].transfer_s
    assert rows["flexkv-4-ctas"].same_as is None
    assert rows["pegaflow-kernel"].kind is CandidateKind.STATIC


def test_what_the_layout_offers_is_used() -> None:
    best = {
        layout: _bench(sim_engine(), layout=NamedLayout.parse(layout), directions=(Direction.BOTH,)).rows[1].name
        for layout in LAYOUTS
    }
    assert best["strided"].startswith("2 x pitched")
    assert best["host-ordered"].startswith("2 x staged")
    assert best["contiguous"] == "2 x direct"
    assert "kernel" in best["shuffled"]


class Limited:
    """A simulated H200 which says that it has two backends, and knows what its CPU and SMs do."""

    def __init__(self) -> None:
        self._engine = sim_engine()
        self.facts = self._engine.facts
        self.capabilities = capabilities
        self.conditions = self._engine.conditions
        self.close = self._engine.close

    def transfer(self, block: TransferBlock):  # type: ignore[no-untyped-def]
        for measurement in self._engine.transfer(replace(block, limits=block.limits)):
            yield _with_costs(measurement)


def _with_costs(measurement: Measurement) -> Measurement:
    timed = measurement.phase is Phase.TIMED
    return replace(measurement, wait_cpu_s=1.0, sm_s=2.0, span_s=0.5) if timed else measurement


def test_what_the_host_and_the_sms_spent_is_told_if_known() -> None:
    for row in _bench(Limited()).rows:
        assert row.host_s == pytest.approx(1.0 + (row.submit_s or 0.0))
        assert (row.sm_s, row.span_s) == (2.0, 0.5)


def test_plans_of_absent_backends_are_among_the_candidates() -> None:
    (planned,) = plan_transfer_bench(TransferBenchRequest(directions=H2D), capabilities(backends=(Backend.DIRECT,)))
    backends = {c.plan.backend for c in planned.block.candidates if not hasattr(c.plan, "load")}
    assert {Backend.DIRECT, Backend.BATCH, Backend.KERNEL} <= backends


def test_what_is_unsupported_has_a_row_without_numbers() -> None:
    engine = sim_engine()
    asked = replace(capabilities(), priorities=(0, -77))
    (planned,) = plan_transfer_bench(TransferBenchRequest(directions=H2D, rounds=1), asked)
    refused = [row for row in measure(planned, engine).rows if row.status == "unsupported"]
    assert {row.plan.stream_priority for row in refused if not hasattr(row.plan, "load")} == {-77}
    assert all(row.detail and row.bytes_per_s is None and row.ratio_to_ceiling is None for row in refused)


def test_steps_are_those_of_the_block() -> None:
    engine = sim_engine()
    (planned,) = plan_transfer_bench(TransferBenchRequest(directions=H2D, rounds=4), engine.capabilities())
    assert len(list(engine.transfer(planned.block))) == planned.steps


def test_flags_of_the_device_are_kept() -> None:
    assert _bench(sim_engine("throttled")).flags == (BlockFlag.THROTTLED,)
    assert _bench(sim_engine()).flags == ()


def test_one_range_of_one_byte() -> None:
    assert {row.status for row in _bench(sim_engine(), ranges=1, range_bytes=1).rows} == {"ok"}


@pytest.mark.parametrize(
    "asked",
    [
        {"ranges": 0},
        {"range_bytes": 0},
        {"ranges": -1},
        {"rounds": 0},
        {"rounds": 10_001},
        {"seed": -1},
        {"seed": 2**31},
        {"ranges": 2**40, "range_bytes": 2**40},
        {"ranges": 4, "layout": NamedLayout.parse("runs:5")},
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(asked: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        TransferBenchRequest(**asked)  # type: ignore[arg-type]


def test_the_ceiling_is_direct() -> None:
    (planned,) = plan_transfer_bench(TransferBenchRequest(directions=H2D), capabilities())
    assert planned.block.candidates[0].plan == direct()
    assert planned.block.key == "bench/shuffled/h2d/16384x67108864"
