"""The overlap self-test on environments that serialise, and on those that do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.cuda.serving.decode import DecodeLostError
from pega_tune.autotune.cuda.serving.overlap import (
    LEAST_OVERLAP,
    SERIALISED,
    Copies,
    alone,
    flags_beside,
    overlap,
)
from pega_tune.errors import DeviceError
from tests.helpers.serving_world import World, WorldlyCopy, WorldlyDecode

COPY_S = 0.0004


def _flags(world: World, step_s: float, beside: WorldlyCopy) -> tuple[str, ...]:
    before = alone(Copies(WorldlyCopy(world, COPY_S), (WorldlyCopy(world, COPY_S),)))
    decode = WorldlyDecode(world, step_s)
    return flags_beside(decode, Copies(beside, ()), before, step_s, world.host)


@pytest.mark.parametrize("step_s", [0.0001, 0.004, 0.2])
def test_steps_that_go_on_beside_copies_are_no_oddity(step_s: float) -> None:
    world = World()
    assert _flags(world, step_s, WorldlyCopy(world, COPY_S)) == ()


@pytest.mark.parametrize("step_s", [0.0001, 0.004, 0.2])
def test_steps_that_stand_still_while_bytes_move_are_serialised(step_s: float) -> None:
    world = World()
    assert _flags(world, step_s, WorldlyCopy(world, COPY_S, alternates=True)) == (SERIALISED,)


@pytest.mark.parametrize("step_s", [0.0001, 0.004])
def test_copies_and_steps_that_take_turns_are_serialised(step_s: float) -> None:
    world = World()
    assert _flags(world, step_s, WorldlyCopy(world, COPY_S, alternates=True, step_s=step_s)) == (SERIALISED,)


def test_copies_that_take_a_third_longer_beside_decode_are_no_oddity() -> None:
    world = World()
    assert _flags(world, 0.004, WorldlyCopy(world, COPY_S * 4 / 3)) == ()


def test_calls_that_return_only_when_the_work_is_done_are_serialised_without_another_look() -> None:
    world = World()
    blocking = WorldlyCopy(world, COPY_S, submit_s=0.95 * COPY_S)
    before = alone(Copies(WorldlyCopy(world, COPY_S), (WorldlyCopy(world, COPY_S), blocking)))
    assert before.blocks
    beside = WorldlyCopy(world, COPY_S)
    assert flags_beside(WorldlyDecode(world, 0.004), Copies(beside, ()), before, 0.004, world.host) == (SERIALISED,)
    assert beside.times == 0


def test_a_copy_alone_is_timed_after_a_first_one() -> None:
    world = World()
    chunked, whole = WorldlyCopy(world, COPY_S), WorldlyCopy(world, 2 * COPY_S)
    before = alone(Copies(chunked, (whole,)))
    assert (before.copy_s, before.blocks) == (COPY_S, False)
    assert whole.times == 2


def test_decode_that_is_lost_meanwhile_is_an_error() -> None:
    world = World()
    before = alone(Copies(WorldlyCopy(world, COPY_S), ()))
    decode = WorldlyDecode(world, 0.004)
    decode.lost = DeviceError("gone")
    with pytest.raises(DecodeLostError):
        flags_beside(decode, Copies(WorldlyCopy(world, COPY_S), ()), before, 0.004, world.host)


@given(st.floats(1e-4, 1e3), st.floats(1e-4, 1e3))
def test_the_score_is_one_for_turns_and_two_for_strangers(copies_s: float, together_s: float) -> None:
    assert overlap(copies_s, together_s, copies_s + together_s) == pytest.approx(1)
    assert overlap(together_s, together_s, together_s) == pytest.approx(2)
    assert 1 < LEAST_OVERLAP < 2
