from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.sweep.pareto import Offer, pareto
from pega_tune.kernels.plan import Backend, CopyPlan, Variant, direct, kernel
from pega_tune.profiles.policy.table import MAX_OPTIONS

offers = st.builds(
    lambda grid, priority, time_s: Offer(kernel(Variant.WARP, grid, 256, priority), time_s, 256 * grid),
    st.integers(1, 64),
    st.integers(-5, 0),
    st.floats(1e-6, 1e-2),
)


@given(st.lists(offers, min_size=1, max_size=30), st.floats(0, 0.2))
def test_kept_plans_are_slower_and_gentler_one_after_the_other(found: list[Offer], margin: float) -> None:
    kept = pareto(found, margin)
    assert 1 <= len(kept) <= MAX_OPTIONS
    assert all(a.time_s <= b.time_s and a.threads >= b.threads for a, b in pairwise(kept))
    assert all(a.threads > b.threads for a, b in pairwise(kept[1:]))
    assert kept[0].time_s == min(o.time_s for o in found)
    assert kept[-1].threads == min(o.threads for o in found)


@given(st.lists(offers, min_size=1, max_size=30), st.floats(0, 0.2))
def test_the_gentlest_within_the_noise_of_the_fastest_is_kept(found: list[Offer], margin: float) -> None:
    limit_s = min(o.time_s for o in found) * (1 + margin)
    assert min(o.threads for o in found if o.time_s <= limit_s) in [o.threads for o in pareto(found, margin)]


def test_of_equal_plans_the_fastest_and_the_bounded_one_without_priority_stay() -> None:
    wide = Offer(kernel(Variant.BLOCK, 65_535, 256), 1e-3, 16 * 256)
    bounded = Offer(kernel(Variant.BLOCK, 16, 256), 1.001e-3, 16 * 256)
    urgent = Offer(kernel(Variant.BLOCK, 16, 256, -5), 0.999e-3, 16 * 256)
    slow = Offer(direct(), 1.0, 0)
    assert pareto([wide, urgent, bounded, slow], 0.02) == (urgent, bounded, slow)


def test_of_equal_plans_the_one_without_a_hint_stays() -> None:
    plain = Offer(kernel(Variant.WARP, 4, 256), 1.001e-3, 1024)
    confined = Offer(replace(plain.plan, sm_partition=8), 1e-3, 1024)
    assert pareto([confined, plain], 0.02) == (confined, plain)
    assert min((confined, plain), key=lambda offer: offer.burden) == plain
    batch = Offer(CopyPlan(Backend.BATCH), 1e-3, 0)
    overlap = Offer(CopyPlan(Backend.BATCH, prefer_overlap=True), 1.001e-3, 0)
    assert pareto([overlap, batch], 0.02) == (batch,)


def test_of_plans_that_leave_the_sms_alone_the_simplest_stays_however_slow() -> None:
    slow = Offer(direct(), 1.0, 0)
    batch = Offer(CopyPlan(Backend.BATCH), 1e-3, 0)
    wide = Offer(kernel(Variant.BLOCK, 16, 256), 0.5e-3, 16 * 256)
    assert pareto([slow, batch], 0.02) == (batch, slow)
    assert pareto([batch, wide, slow], 0.02) == (wide, batch, slow)
