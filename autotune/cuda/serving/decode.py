"""Decode that runs beside transfers, wherever it runs: its steps, and whether it still makes them."""

import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, TypeAlias

from pega_tune.autotune.engine import EngineLostError
from pega_tune.autotune.serving import DecodeSpec, Seconds
from pega_tune.errors import DeviceError, PegaTuneError
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.decode.ring import StepRing

RING_STEPS: Final = 1 << 20
"""Steps that a ring remembers, in 8 MiB: a minute of the shortest ones, which take some 60 us."""

START_TIMEOUT_S: Final = 170.0
"""For everything before the first steps: importing torch, compiling, and filling the weights. A child that holds an
engine is given this long and a little more."""

STEP_TIMEOUT_S: Final = 20.0
"""For one step to end, however it is held up."""

_LOOK_S: Final = 0.0005


class DecodeLostError(EngineLostError):
    """Decode has ended on its own."""

    code: ClassVar[str] = "decode-lost"


class DecodeStartError(DeviceError):
    """Decode does not start."""

    code: ClassVar[str] = "decode-start"


class Probe(Protocol):
    """A decode workload, as `kernels.decode.probe.DecodeProbe`."""

    def start(self, ring: StepRing) -> None:
        """Prepares everything."""

    def run(self) -> None:
        """Steps until the ring says stop."""

    def close(self) -> None:
        """Gives everything back."""


ProbeMaker: TypeAlias = Callable[[DecodeSpec, int], Probe]
"""Makes the probe of a workload for the device of an ordinal; a function of a module, so that a child can import it."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What decodes, and on which device.

    Attributes:
        spec: what.
        ordinal: index of the device in CUDA's order.
    """

    spec: DecodeSpec
    ordinal: int


class RunningDecode(Closing):
    """A workload that has been started.

    Attributes:
        ring: where its steps are found.
        pid: of the process that it has for itself; None if it runs in ours.
    """

    def __init__(self, ring: StepRing) -> None:
        self.ring: Final = ring
        self.pid: int | None = None

    @abstractmethod
    def failure(self) -> PegaTuneError | None:
        """Why it does not run any more; None while it does."""

    def check(self) -> None:
        """Makes sure that it still runs.

        Raises:
            DecodeLostError: it does not.
        """
        failure = self.failure()
        if failure is not None:
            raise DecodeLostError(f"decode has ended: {failure.message}", failure.hint) from failure

    def wait_until_warm(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Returns when its first steps are done.

        Raises:
            PegaTuneError: it does not start.
        """
        if not self._wait(lambda: self.ring.is_warm, timeout_s):
            raise self.failure() or DecodeStartError(f"decode did not start within {timeout_s:g} s")

    def ends_through(self, begin_s: float, end_s: float) -> Seconds:
        """Waits for the first step that ends after an interval.

        Args:
            begin_s: on the system's monotonic clock.
            end_s: likewise.

        Returns:
            (n,) ends of all steps from the beginning of the interval to that one.

        Raises:
            DecodeLostError: decode has ended.
            StepsLostError: the interval is too long to remember its steps.
        """
        time.sleep(max(0.0, end_s - time.monotonic()))
        passed = self.ring.count
        if not self._wait(lambda: self.ring.count > passed, STEP_TIMEOUT_S):
            self.check()
            raise DecodeLostError(f"no decode step has ended for {STEP_TIMEOUT_S:g} s")
        return self.ring.ends_between(begin_s, time.monotonic())

    def _wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Whether something happens in time, while decode runs."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if self.failure() is not None or time.monotonic() > deadline:
                return done()
            time.sleep(_LOOK_S)
        return True
