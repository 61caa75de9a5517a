import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.autotune.sweep.plans import legs_of, pegaflow_kernel
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape

KIB, MIB = 1 << 10, 1 << 20
RULES = {rule.name: rule for rule in STATIC_RULES}
BATCH = CopyPlan(Backend.BATCH)

shapes = st.builds(
    lambda n, size, direction: TransferShape(n, n * size, direction),
    st.integers(1, 1 << 17),
    st.integers(1, 1 << 26),
    st.sampled_from(Direction),
)


def _plan(name: str, ranges: int, size: int, direction: Direction = Direction.H2D) -> AnyPlan:
    return RULES[name].plan(TransferShape(ranges, ranges * size, direction))


@given(shapes, st.sampled_from(STATIC_RULES))
def test_every_rule_has_a_plan_for_every_shape(shape: TransferShape, rule: object) -> None:
    plan = rule.plan(shape)  # type: ignore[attr-defined]
    assert isinstance(plan, PlanPair) == (shape.direction is Direction.BOTH)
    assert not getattr(plan, "fused", False)


def test_names_are_unique_and_sources_named() -> None:
    assert len(RULES) == len(STATIC_RULES) == 8
    assert all(len(rule.source) > 20 for rule in STATIC_RULES)
    assert "8 bytes" in RULES["sglang-quota-2"].source


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("pegaflow-direct", direct()),
        ("pegaflow-kernel", pegaflow_kernel()),
        ("one-batch-call", BATCH),
        ("sglang-quota-2", kernel(Variant.WARP, 2, 1024)),
        ("flexkv-4-ctas", kernel(Variant.BLOCK, 4, 1024)),
        ("tokenspeed-grid-32", kernel(Variant.BLOCK, 32, 128)),
    ],
)
@given(shape=shapes)
def test_rules_that_look_at_nothing(name: str, plan: CopyPlan, shape: TransferShape) -> None:
    assert set(legs_of(RULES[name].plan(shape))) == {plan}


def test_launches_of_64_mib_are_enqueued() -> None:
    plan = _plan("pegaflow-64mib-launches", 65_536, 4 * KIB)
    assert isinstance(plan, CopyPlan)
    assert plan.options
    assert (plan.options.max_grid_blocks, plan.options.chunk_descriptors) == (65_535, 16_384)
    assert not plan.backpressure


def test_up_to_64_mib_is_one_launch() -> None:
    assert _plan("pegaflow-64mib-launches", 16_384, 4 * KIB) == pegaflow_kernel()
    huge = _plan("pegaflow-64mib-launches", 2, 100 * MIB)
    assert isinstance(huge, CopyPlan)
    assert huge.options
    assert huge.options.chunk_descriptors == 1


@pytest.mark.parametrize(
    ("ranges", "size", "backend"),
    [
        (16, 28 * KIB - 1, Backend.KERNEL),
        (16, 28 * KIB, Backend.BATCH),
        (15, 28 * KIB - 1, Backend.BATCH),
        (16_384, 4 * KIB, Backend.KERNEL),
    ],
)
def test_the_28_kib_rule_has_its_edges_and_is_for_loads_alone(ranges: int, size: int, backend: Backend) -> None:
    load = _plan("vllm-28kib", ranges, size)
    assert isinstance(load, CopyPlan)
    assert load.backend is backend
    assert load.options is None or load.options.max_grid_blocks == 12
    assert _plan("vllm-28kib", ranges, size, Direction.D2H) == BATCH
    assert _plan("vllm-28kib", ranges, size, Direction.BOTH) == PlanPair(load, BATCH)
