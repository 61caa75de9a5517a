from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.sweep.representatives import representatives
from pega_tune.autotune.sweep.survivors import MeasuredPlan, family
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, PlanPair, Variant, kernel

MIB = 1 << 20


def _measured(plan: AnyPlan, time_s: float, ctas: int = 0, span_s: float | None = 0.0, dma: int = 4096) -> MeasuredPlan:
    return MeasuredPlan(plan, time_s, ctas, span_s, dma, span_s)


def _pair(leg: CopyPlan, fused: bool = False) -> PlanPair:
    return PlanPair(leg, leg, fused)


grids = st.integers(1, 4096)
plans = st.builds(
    lambda grid, priority, time_s, span_s: _measured(
        kernel(Variant.WARP, grid, 256, priority), time_s, grid, span_s, 24 * grid
    ),
    grids,
    st.sampled_from([0, -5]),
    st.floats(1e-5, 1e-1),
    st.none() | st.floats(1e-6, 1e-1),
)
found = st.lists(plans, min_size=1, max_size=15, unique_by=lambda measured: measured.plan)


@given(found, st.integers(1, 10))
def test_so_many_are_kept_in_their_order(seen: list[MeasuredPlan], most: int) -> None:
    kept = representatives(seen, most)
    assert len(kept) == min(most, len(seen))
    assert list(kept) == [measured for measured in seen if measured in kept]


@given(found, st.integers(5, 10))
def test_the_best_in_each_known_measure_stays(seen: list[MeasuredPlan], most: int) -> None:
    kept = representatives(seen, most)
    firsts = list({family(m.plan): m for m in reversed(seen)}.values())
    assert min(m.transfer_s for m in kept) <= min(m.transfer_s for m in firsts)
    assert min(m.resident_ctas for m in kept) <= min(m.resident_ctas for m in firsts)
    assert min(m.largest_dma_bytes for m in kept) <= min(m.largest_dma_bytes for m in firsts)


def test_variants_in_priority_come_only_where_there_is_room() -> None:
    plain, wide = kernel(Variant.WARP, 1, 1024), kernel(Variant.WARP, 64, 1024)
    urgent = kernel(Variant.WARP, 1, 1024, -5)
    seen = [_measured(urgent, 2e-3, 1), _measured(plain, 2e-3, 1), _measured(wide, 1e-3, 64)]
    assert [m.plan for m in representatives(seen, 2)] == [urgent, wide]
    assert [m.plan for m in representatives(seen, 3)] == [urgent, plain, wide]


def test_copies_in_chunks_and_fused_ones_stand_beside_whole_ones() -> None:
    chunked = CopyPlan(Backend.PITCHED, chunk_bytes=4 * MIB)
    finer = CopyPlan(Backend.PITCHED, chunk_bytes=2 * MIB)
    seen = [
        _measured(_pair(CopyPlan(Backend.PITCHED)), 1.4e-3, dma=64 * MIB),
        _measured(_pair(chunked), 1.8e-3, dma=4 * MIB),
        _measured(_pair(finer), 2.0e-3, dma=2 * MIB),
        _measured(_pair(staged()), 1.5e-3, 528, 6e-5, 64 * MIB),
        _measured(_pair(staged(), fused=True), 2.5e-3, 264, 1e-4, 64 * MIB),
        *(_measured(_pair(kernel(Variant.WARP, 1 << k, 1024)), 2e-3 - 1e-4 * k, 2 << k, 2e-3) for k in range(8)),
    ]
    kept = [m.plan for m in representatives(seen, 6)]
    assert {_pair(CopyPlan(Backend.PITCHED)), _pair(chunked), _pair(staged()), _pair(staged(), fused=True)} <= set(kept)
    assert len(kept) == 6
    assert _pair(finer) in [m.plan for m in representatives(seen, 8)]


def test_of_a_chunked_kind_the_smallest_commands_stand_beside_the_fastest() -> None:
    chunks = [1 * MIB, 2 * MIB, 4 * MIB, 8 * MIB]
    seen = [
        _measured(_pair(staged(chunk_bytes=chunk), fused), 2e-3 + 1e-4 / chunk, 264, 1e-4, chunk)
        for chunk in chunks
        for fused in (False, True)
    ]
    kept = [m.plan for m in representatives(seen, 4)]
    assert kept == [_pair(staged(chunk_bytes=chunk), fused) for chunk in (1 * MIB, 8 * MIB) for fused in (False, True)]


def test_what_room_is_left_goes_to_the_farthest() -> None:
    legs = {1 << k: kernel(Variant.WARP, 1 << k, 1024) for k in range(0, 9)}
    seen = [_measured(leg, 1e-3 / grid, grid, 1e-3, 4096) for grid, leg in legs.items()]
    assert [m.plan for m in representatives(seen, 3)] == [legs[1], legs[16], legs[256]]
