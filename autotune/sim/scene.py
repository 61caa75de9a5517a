"""One segment of decode beside paced bursts, as a run of the event model."""

from dataclasses import dataclass
from math import inf
from random import Random
from typing import Final

from pega_tune.autotune.pacing import NO_JITTER, Jitter, PacedClock
from pega_tune.autotune.sim.copy_engine import CopyEngine, Work
from pega_tune.autotune.sim.events import Event, Process, Simulation
from pega_tune.autotune.sim.link import Link
from pega_tune.autotune.sim.multiprocessors import Multiprocessors
from pega_tune.autotune.sim.parameters import SimParameters
from pega_tune.autotune.sim.stages import Copy, Gather, Lane, Launch, Program
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.terms import Colocation


@dataclass(frozen=True, slots=True)
class Scene:
    """What happens in a segment.

    Attributes:
        colocation: where decode runs; `IDLE` for none.
        step_s: of a decode step by itself.
        program: of every burst; None for no bursts.
        period_s: from one burst to the next.
        bursts: how many; without a program, so many periods pass.
        sleep_s: between a chunk's completion and the next chunk.
        shared_engine: whether decode's small copies are tied to the engine of the saves; else any idle one has them.
        phase: where in a step the first period begins, from 0 to 1; None for anywhere.
        jitter: of the bursts.
    """

    colocation: Colocation
    step_s: float
    program: Program | None
    period_s: float
    bursts: int
    sleep_s: float = 0.0
    shared_engine: bool = True
    phase: float | None = None
    jitter: Jitter = NO_JITTER


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of it, as lists of times in seconds; as in `Segment`."""

    step_ends: list[float]
    due: list[float]
    submitted: list[float]
    completed: list[float]


class SceneRun:
    """A device with a decode process and a transfer process on it."""

    def __init__(self, parameters: SimParameters, scene: Scene, seed: str) -> None:
        """Sets everything up.

        Args:
            parameters: of the device.
            scene: what happens.
            seed: of everything that is random.
        """
        self._parameters: Final = parameters
        self._serving: Final = parameters.serving
        self._scene: Final = scene
        self._random: Final = Random(seed)
        self._simulation: Final = Simulation()
        self.link: Final = Link(self._simulation)
        self.engines: Final = {d: CopyEngine(self._simulation, self.link) for d in Direction.BOTH.legs}
        self._sms: Final = Multiprocessors(self._simulation, self.link, self._serving)
        if scene.colocation is Colocation.TIME_SLICED:
            self._sms.slice(self._serving.slice_s, self._serving.switch_s)
        self._asides: list[Event] = []
        phase = self._random.random() if scene.phase is None else scene.phase
        self._begin_s: Final = phase * scene.step_s  # of the first period
        self._seen: Final = Seen([], [], [], [])

    def run(self) -> Seen:
        """Runs it to its end."""
        bursts = self._simulation.start(self._bursts())
        if self._scene.colocation is Colocation.IDLE:
            self._simulation.run(bursts)
        else:
            self._simulation.run(self._simulation.start(self._decode(bursts)))
        return self._seen

    def _decode(self, bursts: Event) -> Process:
        """Steps until a period after the last burst was due, and past its completion."""
        serving, scene, ends = self._serving, self._scene, self._seen.step_ends
        busy = scene.colocation is Colocation.TIME_SLICED and scene.program is not None and scene.program.uses_sms
        kernels_s = scene.step_s - serving.host_s - serving.small_copy_s
        kernels_s *= serving.busy_step_ratio if busy else 1.0
        ends.append(self._simulation.now_s)
        while not bursts.happened or ends[-1] < self._until_s():
            yield serving.host_s
            yield from self._sms.decode(kernels_s * self._noise(serving.step_sigma))
            yield from self._token()
            ends.append(self._simulation.now_s)

    def _until_s(self) -> float:
        scene, due = self._scene, self._seen.due
        return (due[-1] if due else self._begin_s + scene.bursts * scene.period_s) + scene.period_s

    def _token(self) -> Process:
        """The token of a step goes to the host."""
        engines = [self.engines[Direction.D2H]] if self._scene.shared_engine else list(self.engines.values())
        small_copy_s, spare = self._serving.small_copy_s, (self._parameters.facts.identity.copy_engines or 0) > 2
        if spare and not self._scene.shared_engine:
            yield small_copy_s
            return
        work = None
        for engine in engines:
            work = engine.work
            if work is None or self._random.random() >= work.copy.busy:
                yield from engine.interrupt(small_copy_s)
                return
        assert work
        yield self._turn(work)
        yield from engines[-1].interrupt(small_copy_s)

    def _turn(self, work: Work) -> Event:
        """When a copy engine that is at work takes a small copy."""
        copy, serving = work.copy, self._serving
        if self._scene.colocation is Colocation.TIME_SLICED:
            return self._simulation.first(work.idle, serving.engine_switch_s)
        command_s = inf if copy.commands == 1 else self._random.random() * copy.load.paired_s / copy.commands
        turn_s = self._random.uniform(0.0, serving.slice_s) if self._scene.colocation is Colocation.MPS else inf
        return self._simulation.first(work.ended, min(turn_s, command_s))

    def _bursts(self) -> Process:
        scene, seen, simulation = self._scene, self._seen, self._simulation
        if scene.program is None:
            return
        clock = PacedClock(self._begin_s, scene.period_s, scene.jitter)
        for _ in range(scene.bursts):
            yield max(0.0, clock.due_s - simulation.now_s)
            now_s = max(simulation.now_s, clock.due_s)  # a sum of floats may come a little short
            seen.due.append(clock.submit(now_s))
            seen.submitted.append(now_s)
            yield from self._burst(scene.program)
            now_s = max(now_s, simulation.now_s)
            clock.complete(now_s)
            seen.completed.append(now_s)

    def _burst(self, program: Program) -> Process:
        yield program.prepare_s * self._noise(self._parameters.noise_sigma)
        running: list[Event] = []
        for number, turn in enumerate(program.rounds):
            if number and program.holds_back:
                yield self._scene.sleep_s
            yield turn.submit_s
            tails = dict(enumerate(running)) if not program.holds_back else {}
            running = [self._simulation.start(self._lane(lane, tails.get(i))) for i, lane in enumerate(turn.lanes)]
            if program.holds_back:
                yield from running
        yield from (*running, *self._asides)
        self._asides.clear()

    def _lane(self, lane: Lane, after: Event | None) -> Process:
        if after and not isinstance(lane[0], Copy):  # an engine keeps the order of its commands
            yield after
        for stage in lane:
            match stage:
                case Copy():
                    yield self.engines[stage.load.direction].submit(stage)
                case Launch():
                    yield from self._sms.launch(stage, self._noise(self._serving.launch_sigma))
                case Gather() if stage.aside:
                    self._asides.append(self._simulation.start(self._sms.gather(stage)))
                case Gather():
                    yield from self._sms.gather(stage)

    def _noise(self, sigma: float) -> float:
        return self._random.lognormvariate(0.0, sigma)
