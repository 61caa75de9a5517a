"""Decode probes that need no device: they tick, or do what the source of their workload says instead."""

import os
import signal
import time

from pega_tune.autotune.serving import DecodeSpec
from pega_tune.errors import DeviceError, UsageError
from pega_tune.kernels.decode.ring import RingState, StepRing
from pega_tune.kernels.driver import DriverCallError

TICK_S = 0.001
WARM_STEPS = 5


class FakeProbe:
    """Ends a step every millisecond; what else it does is its source."""

    def __init__(self, spec: DecodeSpec, ordinal: int) -> None:
        self._source = spec.source
        self._ordinal = ordinal
        self._ring: StepRing | None = None

    def start(self, ring: StepRing) -> None:
        self._ring = ring
        match self._source:
            case "refused":
                raise UsageError("there is no such workload", "take another one")
            case "too-large":
                raise DeviceError(f"no room on device {self._ordinal}", "take a smaller one")
            case "unlucky":
                raise DriverCallError("cuDevicePrimaryCtxRetain", 46)
            case "buggy":
                raise ZeroDivisionError("a bug of ours")
            case "crashing":
                os.write(2, b"a driver complains\n")
                os.kill(os.getpid(), signal.SIGKILL)
            case "environment":
                raise DeviceError(os.environ.get("PEGA_TUNE_TEST", "not set"))

    def run(self) -> None:
        ring = self._ring
        assert ring is not None
        if self._source == "idle":
            return
        ring.begin(WARM_STEPS)
        while not ring.stopping or self._source == "deaf":
            time.sleep(TICK_S)
            ring.append(time.monotonic_ns())
            if self._source == "short-lived" and ring.count == 4 * WARM_STEPS:
                raise DeviceError("an illegal address", "start again")
            if self._source == "mortal" and ring.count == 4 * WARM_STEPS:
                os._exit(7)
        ring.end(RingState.STOPPED)

    def close(self) -> None:
        self._ring = None


def make_fake_probe(spec: DecodeSpec, ordinal: int) -> FakeProbe:
    """As a `ProbeMaker`."""
    return FakeProbe(spec, ordinal)
