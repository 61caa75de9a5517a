"""The simulated devices there are, one data file each, found by name: `sim:h200`, `sim:h200+throttled`."""

from dataclasses import dataclass, field
from importlib.resources import files

from pega_tune.autotune.sim.engine import SimEngine, SimOptions
from pega_tune.autotune.sim.faults import SimFaults
from pega_tune.autotune.sim.parameters import load_parameters
from pega_tune.errors import UsageError
from pega_tune.kernels.facts import SIMULATED_PREFIX, DeviceFacts


@dataclass(frozen=True, slots=True)
class SimFactory:
    """Builds the engine of a simulated device; small enough to be sent to another process.

    Attributes:
        name: of the data file, `h200`.
        options: faults and memory limits.
    """

    name: str
    options: SimOptions = field(default_factory=SimOptions)

    @property
    def facts(self) -> DeviceFacts:
        """What the device claims to be."""
        return load_parameters(self.name).facts

    def __call__(self) -> SimEngine:
        """A new engine."""
        return SimEngine(load_parameters(self.name), self.options)


def sim_names() -> tuple[str, ...]:
    """Names of all simulated devices, with their prefix, in alphabetical order."""
    data = (entry.name for entry in files(__name__).iterdir())
    return tuple(sorted(SIMULATED_PREFIX + name[:-5] for name in data if name.endswith(".json")))


def sim_factory(name: str, max_device_bytes: int | None = None, max_host_bytes: int | None = None) -> SimFactory:
    """The factory of a simulated device.

    Args:
        name: `sim:NAME`, with faults to rehearse: `sim:NAME+FAULT+FAULT=TEXT` (see `SimFaults`).
        max_device_bytes: upper bound on the device memory that it offers, in bytes; None adds none.
        max_host_bytes: upper bound on the pinned host memory that it offers, in bytes; None adds none.

    Raises:
        UsageError: there is no such device or fault.
    """
    device, *faults = name.split("+")
    if device not in sim_names():
        raise UsageError(f"there is no simulated device {device!r}", f"known: {', '.join(sim_names())}")
    options = SimOptions(SimFaults.parse(faults), max_device_bytes, max_host_bytes)
    return SimFactory(device.removeprefix(SIMULATED_PREFIX), options)
