from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.bench.serving_groups import PARTITION_SMS, Group, Setting, settings
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.kernels.plan import Backend, PlanPair
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.sweeps import MIB, PRIORITIES, capabilities

ALL = tuple(Backend)
ELSEWHERE = {Group.BEST}


def _shape(layout: str = "shuffled", direction: Direction = Direction.BOTH) -> TransferShape:
    ranges = 1 if layout == "contiguous" else 16_384
    return NamedLayout.parse(layout).described(TransferShape(ranges, 64 * MIB, direction))


def _made(group: Group, layout: str = "shuffled", direction: Direction = Direction.BOTH) -> tuple[Setting, ...]:
    return settings(group, _shape(layout, direction), capabilities(backends=ALL))


@given(st.sampled_from(Group), st.sampled_from(["shuffled", "strided", "host-ordered"]), st.sampled_from(Direction))
def test_settings_fit_the_direction_and_have_names_of_their_own(
    group: Group, layout: str, direction: Direction
) -> None:
    made = _made(group, layout, direction)
    assert len({setting.name for setting in made}) == len(made)
    assert all(isinstance(setting.plan, PlanPair) == (direction is Direction.BOTH) for setting in made)
    assert all(setting.static == (group is Group.RULES) for setting in made)


@pytest.mark.parametrize("group", sorted(set(Group) - ELSEWHERE), ids=str)
def test_every_group_has_settings_where_its_question_makes_sense(group: Group) -> None:
    assert _made(group, "host-ordered")


def test_what_is_best_has_to_be_measured_first() -> None:
    assert _made(Group.BEST) == ()


@given(st.sampled_from(Group), st.sets(st.sampled_from(Backend)))
def test_nothing_is_run_that_the_device_cannot(group: Group, backends: set[Backend]) -> None:
    device = capabilities(backends=tuple(backends), max_threads=512)
    for setting in settings(group, _shape("strided"), device):
        assert {leg.backend for leg in legs_of(setting.plan)} <= backends
        assert all((leg.threads or 0) <= 512 for leg in legs_of(setting.plan))


def test_the_rules_are_all_of_them_with_the_plans_that_they_take_here() -> None:
    expected = {rule.name: rule.plan(_shape()) for rule in STATIC_RULES}
    assert {setting.name: setting.plan for setting in _made(Group.RULES)} == expected


def test_large_pieces_are_moved_whole_and_in_parts_by_what_suits_the_layout() -> None:
    for layout, backends in (("strided", {Backend.PITCHED, Backend.STAGED}), ("host-ordered", {Backend.STAGED})):
        legs = [leg for setting in _made(Group.DMA_CHUNKS, layout) for leg in legs_of(setting.plan)]
        assert {leg.backend for leg in legs} == backends
        assert {leg.chunk_bytes for leg in legs} == {None, 8 * MIB, 4 * MIB, 2 * MIB}
    contiguous = [leg for setting in _made(Group.DMA_CHUNKS, "contiguous") for leg in legs_of(setting.plan)]
    assert Backend.DIRECT in {leg.backend for leg in contiguous}
    assert _made(Group.DMA_CHUNKS) == ()


def test_kernels_in_chunks_wait_or_do_not() -> None:
    for group, waits in ((Group.CHUNKS, True), (Group.ENQUEUE_ONLY, False)):
        legs = [leg for setting in _made(group) for leg in legs_of(setting.plan)]
        assert legs
        assert all(leg.backpressure is waits and leg.options and leg.options.chunk_descriptors for leg in legs)


def test_the_weakest_and_the_strongest_priority_are_compared() -> None:
    def priorities(known: tuple[int, ...]) -> set[int]:
        device = replace(capabilities(), priorities=known)
        made = settings(Group.PRIORITIES, _shape(), device)
        return {leg.stream_priority for setting in made for leg in legs_of(setting.plan)}

    assert priorities(PRIORITIES) == {0, -5}
    assert priorities((0,)) == {0}
    assert priorities(()) == set()


def test_partitions_and_hybrids() -> None:
    partitions = {leg.sm_partition for setting in _made(Group.PARTITIONS) for leg in legs_of(setting.plan)}
    assert partitions == set(PARTITION_SMS)
    hybrids = [[leg.backend for leg in legs_of(setting.plan)] for setting in _made(Group.HYBRID)]
    assert sorted(hybrids) == [[Backend.DIRECT, Backend.KERNEL], [Backend.KERNEL, Backend.DIRECT]]
    assert _made(Group.HYBRID, direction=Direction.H2D) == ()
