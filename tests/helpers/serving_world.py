"""A host and a device in made-up time: decode steps that go on, or wait, while something else takes its time."""

from dataclasses import dataclass, field

import numpy as np

from pega_tune.autotune.cuda.serving.bursts import HostClock
from pega_tune.autotune.cuda.serving.decode import DecodeLostError, RunningDecode
from pega_tune.autotune.cuda.timing import Timing
from pega_tune.autotune.serving import Seconds
from pega_tune.errors import PegaTuneError
from pega_tune.kernels.decode.ring import StepRing

LOOK_S = 1e-7  # what a look at the clock takes


@dataclass
class World:
    """Time passes only when somebody lets it.

    Attributes:
        time_s: now.
        busy_s: of it, what the thread has spent on the processor.
        naps: what has been slept, in order.
        lateness_s: what a sleep takes too long.
        held_up: the intervals in which decode does not go on.
    """

    time_s: float = 100.0
    busy_s: float = 0.0
    naps: list[float] = field(default_factory=list)
    lateness_s: float = 0.0
    held_up: list[tuple[float, float]] = field(default_factory=list)

    def work(self, seconds: float) -> None:
        """Keeps the processor busy."""
        self.time_s += seconds
        self.busy_s += seconds

    def sleep(self, seconds: float) -> None:
        """Sleeps, somewhat longer than asked for."""
        assert seconds >= 0
        self.naps.append(seconds)
        self.time_s += seconds + self.lateness_s

    def look(self) -> float:
        """The clock."""
        self.work(LOOK_S)
        return self.time_s

    @property
    def host(self) -> HostClock:
        """For what paces."""
        return HostClock(self.look, self.sleep, lambda: self.work(LOOK_S), lambda: self.busy_s)


class WorldlyDecode(RunningDecode):
    """Steps of equal length, but for the intervals in which the world holds them up."""

    def __init__(self, world: World, step_s: float, pid: int | None = None) -> None:
        super().__init__(StepRing.private(1))
        self.pid = pid
        self.closed = False
        self.lost: PegaTuneError | None = None
        self._world = world
        self._step_s = step_s

    def failure(self) -> PegaTuneError | None:
        return self.lost

    def ends_through(self, begin_s: float, end_s: float) -> Seconds:
        if self.lost is not None:
            raise DecodeLostError(self.lost.message)
        ends = [begin_s]
        while ends[-1] <= end_s:
            ends.append(self._after(ends[-1]))
        self._world.time_s = max(self._world.time_s, ends[-1])
        return np.array(ends)

    def close(self) -> None:
        self.closed = True

    def _after(self, time_s: float) -> float:
        """The end of a step that begins at a time."""
        left_s = self._step_s
        for begin_s, end_s in self._world.held_up:
            if end_s <= time_s:
                continue
            run_s = max(0.0, begin_s - time_s)
            if run_s >= left_s:
                break
            left_s -= run_s
            time_s = end_s
        return time_s + left_s


@dataclass
class WorldlyCopy:
    """Takes its time, and holds decode up if it is told to.

    Attributes:
        copy_s: seconds that it takes.
        submit_s: seconds of it in calls.
        alternates: decode stands still meanwhile.
        step_s: and makes a step before the next one, if this is not 0.
        times: how often it ran.
    """

    world: World
    copy_s: float
    submit_s: float = 1e-6
    alternates: bool = False
    step_s: float = 0.0
    times: int = 0

    def __call__(self) -> Timing:
        begin_s = self.world.time_s
        self.world.time_s += self.copy_s
        if self.alternates:
            self.world.held_up.append((begin_s, self.world.time_s))
            self.world.time_s += self.step_s
        self.times += 1
        return Timing(self.copy_s, 0.0, self.submit_s, self.copy_s)
