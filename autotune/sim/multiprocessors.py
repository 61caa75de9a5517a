"""The SMs: which kernels are on them, whose turn it is, and how fast decode goes beside them."""

from typing import Final

from pega_tune.autotune.sim.events import Event, Fluid, Process, Simulation
from pega_tune.autotune.sim.link import Flow, Link, Load
from pega_tune.autotune.sim.serving_parameters import ServingParameters
from pega_tune.autotune.sim.stages import Gather, Launch
from pega_tune.autotune.sim.time_slices import Side, TimeSlices, Together, Turns


class Multiprocessors:
    """Kernels of decode and of transfers.

    A copy kernel has all that it wants of the SMs if nothing else is on them. Beside another one it has what is left,
    for as large a part of its bytes; the rest waits until the other has ended.
    """

    def __init__(self, simulation: Simulation, link: Link, serving: ServingParameters) -> None:
        """Begins with nothing to do, and with everybody's kernels side by side.

        Args:
            simulation: the clock.
            link: what copy kernels load from and store to.
            serving: how decode is slowed down.
        """
        self._simulation: Final = simulation
        self._link: Final = link
        self._serving: Final = serving
        self._turns: Turns = Together()
        self._launches: list[Launch] = []
        self._flows: list[tuple[Flow, float]] = []
        self._gathers: list[Fluid] = []
        self._pending = 0
        self._decode: Fluid | None = None
        self._room = Event(simulation)

    def slice(self, slice_s: float, switch_s: float) -> None:
        """Lets decode and transfers take turns from now on, as processes of their own do."""
        self._turns = TimeSlices(self._simulation, slice_s, switch_s, self._share)

    def decode(self, work_s: float) -> Process:
        """Runs the kernels of a decode step, which take so long by themselves."""
        self._decode = Fluid(self._simulation, work_s)
        self._turns.want(Side.DECODE)
        self._share()
        yield self._decode.done
        self._decode = None
        self._turns.leave(Side.DECODE)

    def launch(self, kernel: Launch, slowness: float) -> Process:
        """Runs a copy kernel, `slowness` times as long as it should take."""
        self._enter()
        share = 1.0
        beside = [other for other in self._launches if other.partition == kernel.partition]
        if beside:
            taken = sum(min(other.threads, other.room) for other in beside)
            share = max(0.0, min(1.0, (kernel.room - taken) / kernel.threads))
        self._launches.append(kernel)
        if share > 0:
            yield from self._move(kernel, share, slowness)
        if share < 1:
            while len(self._launches) > 1 and self._launches[0] is not kernel:
                yield self._room
            yield from self._move(kernel, 1 - share, slowness)
        self._launches.remove(kernel)
        self._room.fire()
        self._room = Event(self._simulation)
        self._leave()

    def gather(self, gather: Gather) -> Process:
        """Runs a kernel between staging buffer and ranges."""
        self._enter()
        work = Fluid(self._simulation, gather.duration_s)
        self._gathers.append(work)
        self._share()
        yield work.done
        self._gathers.remove(work)
        self._share()
        self._leave()

    def _move(self, kernel: Launch, share: float, slowness: float) -> Process:
        load, time = kernel.load, share * slowness
        flow = self._link.begin(Load(load.direction, share * load.nbytes, time * load.alone_s, time * load.paired_s))
        entry = flow, kernel.in_flight_bytes
        self._flows.append(entry)
        self._share()
        yield flow.done
        self._flows.remove(entry)
        self._share()

    def _enter(self) -> None:
        self._pending += 1
        if self._pending == 1:
            self._turns.want(Side.TRANSFER)

    def _leave(self) -> None:
        self._pending -= 1
        if not self._pending:
            self._turns.leave(Side.TRANSFER)

    def _share(self) -> None:
        """Gives everything its rate, after any change."""
        running = self._turns.has(Side.TRANSFER)
        for flow, _ in self._flows:
            self._link.hold(flow, not running)
        for work in self._gathers:
            work.set_rate(float(running))
        if self._decode:
            self._decode.set_rate(self._decode_speed() if self._turns.has(Side.DECODE) else 0.0)

    def _decode_speed(self) -> float:
        """Relative to decode alone: its loads queue up with all that is in flight beyond what the link can take."""
        if not self._turns.has(Side.TRANSFER):
            return 1.0
        in_flight = max((nbytes for _, nbytes in self._flows), default=0.0)
        queued = min(1.0, self._serving.free_bytes / in_flight) if in_flight else 1.0
        return min(queued, self._serving.gather_step_speed if self._gathers else 1.0)
