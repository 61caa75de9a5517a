"""Bursts on a paced clock, in made-up time."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.cuda.serving.bursts import SPIN_S, BurstTimes, run_bursts
from pega_tune.autotune.pacing import PacedClock
from pega_tune.kernels.driver import DriverCallError
from tests.helpers.serving_world import LOOK_S, World

PERIOD_S = 0.05
PROMPT_S = 4 * LOOK_S  # some looks at the clock


@dataclass
class TimedBurst:
    """Takes as long as it is told."""

    world: World
    durations: list[float]
    begun: list[float] = field(default_factory=list)

    def run(self) -> float:
        self.begun.append(self.world.time_s)
        self.world.work(self.durations[len(self.begun) - 1])
        return self.world.time_s


def _run(world: World, durations: list[float]) -> BurstTimes:
    burst = TimedBurst(world, durations)
    return run_bursts(PacedClock(world.time_s, PERIOD_S), burst, len(durations), world.host)


def test_a_burst_goes_when_it_is_due_however_late_a_sleep_ends() -> None:
    world = World(lateness_s=0.9 * SPIN_S)
    begin_s = world.time_s
    times = _run(world, [0.002] * 5)
    np.testing.assert_allclose(times.due, begin_s + PERIOD_S * np.arange(1, 6))
    assert (times.submitted >= times.due).all()
    assert (times.submitted - times.due < PROMPT_S).all()
    np.testing.assert_allclose(times.completed - times.submitted, 0.002, atol=PROMPT_S)


def test_the_thread_sleeps_but_for_the_last_moments() -> None:
    world = World()
    _run(world, [0.002] * 5)
    assert len(world.naps) == 5
    np.testing.assert_allclose(world.naps, [PERIOD_S - SPIN_S] + [PERIOD_S - 0.002 - SPIN_S] * 4, atol=PROMPT_S)


def test_processor_time_is_that_of_the_bursts_alone() -> None:
    assert _run(World(), [0.002, 0.004, 0.001]).cpu_s == pytest.approx(0.007, abs=3 * PROMPT_S)


def test_a_late_burst_goes_at_once_and_the_next_one_on_time() -> None:
    world = World()
    begin_s = world.time_s
    times = _run(world, [PERIOD_S + 0.01, 0.002, 0.002])
    np.testing.assert_allclose(times.due, begin_s + PERIOD_S * np.array([1, 2, 3]))
    assert times.submitted[1] - times.completed[0] < PROMPT_S
    assert times.submitted[2] - times.due[2] < PROMPT_S


def test_due_times_that_pass_meanwhile_are_not_made_up_for() -> None:
    world = World()
    begin_s = world.time_s
    times = _run(world, [3.4 * PERIOD_S, 0.002, 0.002])
    np.testing.assert_allclose(times.due, begin_s + PERIOD_S * np.array([1, 4, 5]))


def test_an_error_ends_the_bursts() -> None:
    class Broken:
        def run(self) -> float:
            raise DriverCallError("cuLaunchKernel", 1)

    world = World()
    with pytest.raises(DriverCallError):
        run_bursts(PacedClock(world.time_s, PERIOD_S), Broken(), 3, world.host)


@given(
    st.lists(st.floats(1e-6, 4 * PERIOD_S), min_size=1, max_size=12),
    st.floats(0, 2 * SPIN_S),
)
def test_bursts_never_overlap_and_are_never_early(durations: list[float], lateness_s: float) -> None:
    times = _run(World(lateness_s=lateness_s), durations)
    assert (times.submitted >= times.due).all()
    assert (times.completed >= times.submitted).all()
    assert (times.submitted[1:] >= times.completed[:-1]).all()
    assert (np.diff(times.due) > PERIOD_S / 2).all()
    late = times.submitted - times.due > lateness_s + PROMPT_S
    assert (times.submitted[1:][late[1:]] - times.completed[:-1][late[1:]] < PROMPT_S).all()
