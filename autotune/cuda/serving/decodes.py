"""The decode that runs beside the blocks of an engine: started when one asks, kept while they ask for the same."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from pega_tune.autotune.cuda.serving.bursts import HostClock
from pega_tune.autotune.cuda.serving.decode import RunningDecode, Workload
from pega_tune.autotune.cuda.serving.overlap import UNTESTED, Alone, Copies, alone, flags_beside
from pega_tune.autotune.engine import MemoryLimitError
from pega_tune.autotune.serving import DecodeSpec, Seconds
from pega_tune.kernels.closing import Closing
from pega_tune.profiles.policy.terms import Colocation

_LEAST_STEPS: Final = 40
_LEAST_S: Final = 0.1
_LONG_ENOUGH_S: Final = 3.0  # for the longest steps, of which a few have to do
_LONGER_STEPS: Final = 0.9


class Adopter(Protocol):
    """Knows which processes on the device are ours, as `sampling.LoadSampler`."""

    def present(self) -> frozenset[int]:
        """Processes on the device now."""

    def adopt(self, pids: tuple[int, ...], before: frozenset[int]) -> None:
        """Takes processes that work for us for ours, too."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Decode that runs, and what was found out about it.

    Attributes:
        decode: it.
        step_s: duration of an undisturbed step, one of the longer ones.
        median_s: of undisturbed steps.
        flags: what is odd about its company, for the segments.
    """

    decode: RunningDecode
    step_s: float
    median_s: float
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Starting:
    """How decode is started and tested.

    Attributes:
        start: in its place, past its first steps.
        copies: for the overlap test; may raise `MemoryLimitError`.
        adopter: is told of its process.
        host: the clock.
    """

    start: Callable[[Workload, Colocation], RunningDecode]
    copies: Callable[[], Copies]
    adopter: Adopter
    host: HostClock


class Decodes(Closing):
    """At most one at a time, on one device."""

    def __init__(self, ordinal: int, starting: Starting) -> None:
        """Starts nothing yet.

        Args:
            ordinal: index of the device in CUDA's order.
            starting: how.
        """
        self._ordinal = ordinal
        self._starting = starting
        self._asked: tuple[DecodeSpec, Colocation] | None = None
        self._beside: Beside | None = None

    def beside(self, spec: DecodeSpec, colocation: Colocation) -> Beside:
        """Decode as asked for; the one that runs, if it is that.

        Raises:
            PegaTuneError: it does not start.
            DecodeLostError: it runs no more.
        """
        if self._beside is None or self._asked != (spec, colocation):
            self.close()
            self._beside = self._start(spec, colocation)
            self._asked = spec, colocation
        self._beside.decode.check()
        return self._beside

    def close(self) -> None:
        """Ends decode if there is any; it can be asked for again."""
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.decode.close()

    def _start(self, spec: DecodeSpec, colocation: Colocation) -> Beside:
        starting = self._starting
        try:
            copies = starting.copies()
        except MemoryLimitError:  # the blocks may be small enough all the same
            copies = None
        before = alone(copies) if copies else None
        present = starting.adopter.present()
        decode = starting.start(Workload(spec, self._ordinal), colocation)
        try:
            if decode.pid is not None:
                starting.adopter.adopt((decode.pid,), present)
            steps_s = quiet_steps(decode, starting.host)
            median_s, step_s = np.quantile(steps_s, (0.5, _LONGER_STEPS)).tolist()
            flags = self._flags(decode, (copies, before), median_s)
        except BaseException:
            decode.close()
            raise
        return Beside(decode, step_s, median_s, flags)

    def _flags(
        self, decode: RunningDecode, tested: tuple[Copies | None, Alone | None], step_s: float
    ) -> tuple[str, ...]:
        copies, before = tested
        if copies is None or before is None:
            return (UNTESTED,)
        return flags_beside(decode, copies, before, step_s, self._starting.host)


def quiet_steps(decode: RunningDecode, host: HostClock) -> Seconds:
    """(n,) durations of steps beside which nothing is transferred, at least one.

    Raises:
        DecodeLostError: decode has ended.
    """
    begin_s = host.now_s()
    ends_s = decode.ends_through(begin_s, begin_s + _LEAST_S)
    while len(ends_s) < 2 or (len(ends_s) <= _LEAST_STEPS and host.now_s() < begin_s + _LONG_ENOUGH_S):
        ends_s = decode.ends_through(begin_s, host.now_s() + _LEAST_S)
    return np.diff(ends_s)
