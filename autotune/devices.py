"""From what a user calls a device to its facts and to what builds its engine."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pega_tune.autotune.engine import EngineFactory
from pega_tune.autotune.isolation.timeouts import Timeouts
from pega_tune.autotune.sim.devices import sim_factory, sim_names
from pega_tune.errors import DeviceError, UsageError
from pega_tune.kernels.facts import SIMULATED_PREFIX, DeviceFacts
from pega_tune.kernels.probe import NoDeviceError, list_devices
from pega_tune.profiles.policy.settings import environment_record, visible_devices

AUTO = "auto"

SIM_TIMEOUTS = Timeouts(start_s=60.0, step_s=10.0)
"""A model answers in microseconds: whoever rehearses a hang should not wait as long as for a device."""

_SIMULATOR_VARIABLE = "NUMBA_ENABLE_CUDASIM"
_UUID_PREFIX = re.compile(r"(GPU|MIG)-[0-9a-f-]*", re.IGNORECASE)

Probe: TypeAlias = Callable[[], tuple[DeviceFacts, ...]]
"""Lists the real devices; raises `NoDeviceError` if there are none."""


class UnknownDeviceError(UsageError):
    """No device goes by that name, or more than one."""

    code = "unknown-device"


class SimulatorError(DeviceError):
    """numba's CUDA simulator is switched on, which has neither our kernels nor a clock."""

    code = "cuda-simulator"


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What a block may use at most, in bytes; None leaves it to the device and its host.

    Attributes:
        device_bytes: device memory.
        host_bytes: pinned host memory.
    """

    device_bytes: int | None = None
    host_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """A device that was found.

    Attributes:
        facts: as they are now.
        factory: builds its engine, in this process or a spawned one.
        timeouts: for an engine of it that is isolated.
    """

    facts: DeviceFacts
    factory: EngineFactory
    timeouts: Timeouts = field(default_factory=Timeouts)


def find_device(spec: str = AUTO, limits: MemoryLimits | None = None, probe: Probe | None = None) -> DeviceChoice:
    """The device that a user means.

    Args:
        spec: `auto`, the first GPU that the driver reports; its number N there; a UUID or a unique prefix of one, from
            `GPU-` or `MIG-` on; or `sim:NAME`, with faults to rehearse if wanted (`sim:NAME+FAULT`).
        limits: memory that the engine may use.
        probe: lists the real devices; the driver does if None. Simulated devices ask nobody.

    Raises:
        UnknownDeviceError: there is no such device; the hint names those there are.
        UsageError: a simulated device is unknown or has no such fault.
        NoDeviceError: a GPU is meant, and there is none.
        DeviceError: a GPU is meant, and the driver or numba's environment does not allow to use it.
    """
    limits = limits or MemoryLimits()
    if spec.startswith(SIMULATED_PREFIX):
        simulated = sim_factory(spec, limits.device_bytes, limits.host_bytes)
        return DeviceChoice(simulated.facts, simulated, SIM_TIMEOUTS)
    probe = probe or _probe
    if spec != AUTO and not _is_number(spec) and not _UUID_PREFIX.fullmatch(spec):
        raise UnknownDeviceError(f"there is no device {spec!r}", _known(_real_or_none(probe)))
    _refuse_simulator()
    facts = _chosen(spec, probe())
    # Late, so that a simulated device needs nothing of CUDA.
    from pega_tune.autotune.cuda.factory import CudaEngineFactory

    return DeviceChoice(facts, CudaEngineFactory(facts.uuid, limits.device_bytes, limits.host_bytes))


def all_devices(probe: Probe | None = None) -> tuple[DeviceFacts, ...]:
    """The real devices, in the driver's order, then the simulated ones.

    Raises:
        DeviceError: the driver does not work. That there is none, or no GPU, is not an error here.
    """
    return (*_real_or_none(probe or _probe), *(sim_factory(name).facts for name in sim_names()))


def _probe() -> tuple[DeviceFacts, ...]:
    return list_devices(visible_devices())


def _real_or_none(probe: Probe) -> tuple[DeviceFacts, ...]:
    try:
        return probe()
    except NoDeviceError:
        return ()


def _chosen(spec: str, real: tuple[DeviceFacts, ...]) -> DeviceFacts:
    if spec == AUTO:
        return real[0]
    if _is_number(spec):
        if int(spec) < len(real):
            return real[int(spec)]
        raise UnknownDeviceError(f"there is no device {spec}: the driver reports {len(real)}, from 0", _known(real))
    fitting = [facts for facts in real if facts.uuid.lower().startswith(spec.lower())]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UnknownDeviceError(f"{len(fitting)} devices have a UUID that begins with {spec!r}", _either(fitting))
    raise UnknownDeviceError(f"there is no device {spec!r}", _known(real))


def _is_number(spec: str) -> bool:
    return spec.isascii() and spec.isdecimal()


def _either(fitting: list[DeviceFacts]) -> str:
    return "give more of it: " + ", ".join(facts.uuid for facts in fitting)


def _known(real: tuple[DeviceFacts, ...]) -> str:
    numbers = [f"{number} ({facts.uuid})" for number, facts in enumerate(real)]
    return "known: " + ", ".join(([AUTO] if numbers else []) + numbers + list(sim_names()))


def _refuse_simulator() -> None:
    value = dict(environment_record().variables).get(_SIMULATOR_VARIABLE)
    if value and value != "0":
        raise SimulatorError(
            f"{_SIMULATOR_VARIABLE} is set to {value}: numba's CUDA simulator can run and time none of this",
            f"unset {_SIMULATOR_VARIABLE}, or use a simulated device of ours: `--device {sim_names()[0]}`",
        )
