"""The PCIe link: two directions, each with a rate of its own, and less for both at once."""

from typing import Final, NamedTuple

from pega_tune.autotune.sim.events import Fluid, Simulation
from pega_tune.kernels.shape import Direction


class Load(NamedTuple):
    """What a flow is to carry, and how fast it could.

    Attributes:
        direction: which way.
        nbytes: how much, more than 0.
        alone_s: how long it takes while nothing moves the other way.
        paired_s: how long while something fills the other direction.
        fill: share of its own direction that it fills.
    """

    direction: Direction
    nbytes: float
    alone_s: float
    paired_s: float
    fill: float = 1.0


class Flow(Fluid):
    """Bytes on their way in one direction; as in `Load`.

    Attributes:
        held: whether what moves them has been taken off its engine or SMs.
    """

    __slots__ = ("alone_s", "direction", "fill", "held", "paired_s")

    def __init__(self, simulation: Simulation, load: Load) -> None:
        super().__init__(simulation, load.nbytes)
        self.direction: Final = load.direction
        self.alone_s: Final = load.alone_s
        self.paired_s: Final = load.paired_s
        self.fill: Final = load.fill
        self.held = False


class Link:
    """Gives every flow its rate, anew whenever one comes, goes, or is held."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation: Final = simulation
        self._flows: list[Flow] = []

    def begin(self, load: Load) -> Flow:
        """Begins a flow."""
        flow = Flow(self._simulation, load)
        self._flows.append(flow)
        flow.done.then(lambda: self._end(flow))
        self._share()
        return flow

    def hold(self, flow: Flow, held: bool) -> None:
        """Stops a flow, or lets it go on."""
        if flow.held != held:
            flow.held = held
            self._share()

    def _end(self, flow: Flow) -> None:
        self._flows.remove(flow)
        self._share()

    def _share(self) -> None:
        moving = [flow for flow in self._flows if not flow.held]
        for flow in self._flows:
            if flow.held:
                flow.set_rate(0.0)
                continue
            beside = sum(other.direction is flow.direction for other in moving)
            filled = max((other.fill for other in moving if other.direction is not flow.direction), default=0.0)
            flow.set_rate(flow.amount / (flow.alone_s + filled * (flow.paired_s - flow.alone_s)) / beside)
