"""The overlap self-test: whether decode goes on while bytes are on their way, or whoever runs us serialises both."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final, TypeAlias

import numpy as np

from pega_tune.autotune.cuda.bench import Bench
from pega_tune.autotune.cuda.layout import GUARD_BYTES, Layout
from pega_tune.autotune.cuda.need import Need
from pega_tune.autotune.cuda.serving.bursts import HostClock
from pega_tune.autotune.cuda.serving.decode import RunningDecode
from pega_tune.autotune.cuda.timing import Timing
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, Variant, direct, kernel
from pega_tune.kernels.shape import Direction

SERIALISED: Final = "serialised"
"""Flag of segments in an environment that does not run transfers and decode at once."""

UNTESTED: Final = "overlap-untested"
"""Flag of segments where there was too little memory for the test."""

LEAST_OVERLAP: Final = 1.3
"""What takes turns scores 1, what never meets 2. Nearer to the former: two threads of one context hold each other up
in the driver, and decode's own small copies wait for a chunk, without being serialised."""

_COPY_BYTES: Final = 16 << 20
_CHUNK_BYTES: Final = 1 << 20  # some 20 us: what decode uploads waits no longer behind it in the same copy engine
_REPEATS: Final = 5
_LEAST_STEPS: Final = 8
_LEAST_COPIES: Final = 8

Copy: TypeAlias = Callable[[], Timing]


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of a test.

    Attributes:
        chunked: by the copy engine, a little at a time.
        whole: the same bytes at once, by the copy engine and by a kernel.
    """

    chunked: Copy
    whole: tuple[Copy, ...]


@dataclass(frozen=True, slots=True)
class Alone:
    """What was seen before decode ran.

    Attributes:
        copy_s: seconds of a chunked copy.
        blocks: whether calls that submit only return when the work is done.
    """

    copy_s: float
    blocks: bool


def overlap(copies_s: float, steps_s: float, window_s: float) -> float:
    """How much ran at once: 1 if copies and steps took turns, 2 if neither held the other up.

    Args:
        copies_s: seconds that the copies would take alone.
        steps_s: seconds that the steps would take alone.
        window_s: seconds that both took together.
    """
    return (copies_s + steps_s) / window_s


def alone(copies: Copies) -> Alone:
    """Times copies while nothing decodes."""
    copies.chunked()
    for copy in copies.whole:
        copy()
    blocks = any(timing.submit_s > timing.transfer_s / 2 for timing in (copy() for copy in copies.whole))
    return Alone(median(copies.chunked().transfer_s for _ in range(_REPEATS)), blocks)


def flags_beside(
    decode: RunningDecode, copies: Copies, before: Alone, step_s: float, host: HostClock
) -> tuple[str, ...]:
    """Copies beside decode for some steps.

    Args:
        decode: runs.
        copies: to run.
        before: what they took alone.
        step_s: what a step takes alone.
        host: the clock.

    Returns:
        What is odd: `SERIALISED`, or nothing.

    Raises:
        DecodeLostError: decode has ended.
    """
    if before.blocks:
        return (SERIALISED,)
    begin_s, done = host.now_s(), 0
    while done < _LEAST_COPIES or host.now_s() < begin_s + _LEAST_STEPS * step_s:
        copies.chunked()
        done += 1
    end_s = host.now_s()
    steps = int((decode.ends_through(begin_s, end_s) <= end_s).sum())
    score = overlap(done * before.copy_s, steps * step_s, end_s - begin_s)
    return () if score >= LEAST_OVERLAP else (SERIALISED,)


def bench_copies(bench: Bench) -> Copies:
    """Copies of a bench; what it was reserved for before is void.

    Raises:
        MemoryLimitError: there is too little memory.
    """
    extent = _COPY_BYTES + 2 * GUARD_BYTES
    begin, size = np.array([GUARD_BYTES], np.uint64), np.array([_COPY_BYTES], np.uint64)
    layouts = {Direction.H2D: Layout(begin, begin, size, extent)}
    bench.reserve(Need.of(1, extent), (Direction.H2D,))

    def copy_by(plan: AnyPlan) -> Copy:
        transfer = bench.transfer(plan, layouts)
        return lambda: bench.run(transfer)

    chunked = copy_by(CopyPlan(Backend.DIRECT, chunk_bytes=_CHUNK_BYTES))
    return Copies(chunked, (copy_by(direct()), copy_by(kernel(Variant.WARP, 1, 1024))))
