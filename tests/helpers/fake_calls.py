"""Driver functions by their name, in place of `kernels.context.call`: of one device with Green Contexts."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from pega_tune.kernels.driver import DriverCallError, DriverMissingError

NAMES = {1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 700: "CUDA_ERROR_ILLEGAL_ADDRESS"}
DEVICE = 7


@dataclass
class FakeCalls:
    """Logs every call; the driver rounds partitions up and clamps priorities, as the real one does.

    Attributes:
        sms: of the device.
        least, step: of partitions.
        tells: whether the driver tells least and step.
        priorities: weakest and strongest.
        strongest: priority that streams really get at most.
        results: CUresults of functions that fail; None for a function that the driver lacks.
        log: (function, arguments) of every call.
    """

    sms: int = 132
    least: int = 8
    step: int = 8
    tells: bool = True
    priorities: tuple[int, int] = (0, -5)
    strongest: int = -5
    results: dict[str, int | None] = field(default_factory=dict)
    log: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    made: int = 100

    def __call__(self, function: str, *arguments: Any) -> Any:
        self.log.append((function, arguments))
        status = self.results.get(function, 0)
        if status is None:
            raise DriverMissingError(f"{function} cannot be called: not found", "install a newer NVIDIA driver")
        if status:
            raise DriverCallError(function, status, NAMES[status])
        answer = getattr(self, f"_{function}", None)
        return answer(*arguments) if answer else None

    @property
    def functions(self) -> list[str]:
        return [function for function, _ in self.log]

    def arguments(self, function: str) -> list[tuple[Any, ...]]:
        """Of all calls of a function."""
        return [arguments for name, arguments in self.log if name == function]

    def _resource(self, sms: int) -> SimpleNamespace:
        least, step = (self.least, self.step) if self.tells else (0, 0)
        return SimpleNamespace(sm=SimpleNamespace(smCount=sms, minSmPartitionSize=least, smCoscheduledAlignment=step))

    def _new(self) -> int:
        self.made += 1
        return self.made

    def _cuDeviceGetDevResource(self, _device: int, _kind: object) -> SimpleNamespace:  # noqa: N802
        return self._resource(self.sms)

    def _cuDevSmResourceSplitByCount(self, _groups: int, whole: Any, _flags: int, least: int) -> Any:  # noqa: N802
        rounded = max(self.least, -(-least // self.step) * self.step)
        if rounded > whole.sm.smCount:
            return [], 0, whole
        return [self._resource(rounded)], 1, self._resource(whole.sm.smCount - rounded)

    def _cuDevResourceGenerateDesc(self, resources: list[Any], _count: int) -> tuple[str, int]:  # noqa: N802
        return ("description", resources[0].sm.smCount)

    def _cuGreenCtxCreate(self, _description: object, _device: int, _flags: int) -> int:  # noqa: N802
        return self._new()

    def _cuGreenCtxStreamCreate(self, _context: int, _flags: int, priority: int) -> int:  # noqa: N802
        return self._stream(priority)

    def _cuStreamCreateWithPriority(self, _flags: int, priority: int) -> int:  # noqa: N802
        return self._stream(priority)

    def _stream(self, priority: int) -> int:
        self.last = max(self.strongest, min(priority, self.priorities[0]))
        return self._new()

    def _cuStreamGetPriority(self, _stream: int) -> int:  # noqa: N802
        return self.last

    def _cuCtxGetStreamPriorityRange(self) -> tuple[int, int]:  # noqa: N802
        return self.priorities
