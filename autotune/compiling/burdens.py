"""What decode may suffer from in a plan: its kernels on the SMs, and its bytes on the copy engines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from pega_tune.autotune.compiling.laws import Array
from pega_tune.autotune.engine import CandidateKind
from pega_tune.autotune.sweep.dma_commands import largest_dma_bytes
from pega_tune.autotune.sweep.observations import transfer_samples, usable
from pega_tune.autotune.sweep.plans import launched, legs_of
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockRecord, Metric


@dataclass(frozen=True, slots=True)
class Residence:
    """How long the kernels of a plan are there, per second of its transfer time; 0 without a kernel.

    Attributes:
        span: time from the first CTA's beginning to the last one's end.
        sm: SM-seconds.
    """

    span: float
    sm: float


@dataclass(frozen=True, slots=True, eq=False)
class Moving:
    """A plan that moves C shapes.

    Attributes:
        plan: which.
        shapes: the C shapes.
        times_s: its transfer times, (C,).
        residences: of its kernels, C of them.
        link_bytes_per_s: speed of a contiguous copy.
    """

    plan: AnyPlan
    shapes: Sequence[TransferShape]
    times_s: Array
    residences: Sequence[Residence]
    link_bytes_per_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Burdens:
    """A plan at C shapes, (C,) each.

    Attributes:
        copies: 1 if a kernel of the plan reads or writes host memory, else 0.
        gathers: 1 if a kernel of the plan works on device memory alone, else 0.
        launches: kernels one after the other, in the direction that has more of them.
        span_s: kernel-resident time in seconds.
        sm_s: SM-seconds.
        command_s: seconds that a copy engine takes for the largest single command.
        backlog_s: seconds for which a copy engine may have a command at every time: all of the transfer, where nobody
            waits for the end of a command before the next one is enqueued, even if the host enqueues them slowly. On an
            H200 256 ranges of 16 KiB, which are 76 us of bytes in 1.08 ms, kept decode waiting for 0.6 ms in every
            colocation, and 1024 of them for up to 2.2 ms of 4.3 (tests/data/h200/8a39189, `direct`).
        engine_s: transfer time in seconds if copy engines move some of it, else 0.
        moving_s: seconds of that for which their bytes are under way, at link speed.
    """

    copies: Array
    gathers: Array
    launches: Array
    span_s: Array
    sm_s: Array
    command_s: Array
    backlog_s: Array
    engine_s: Array
    moving_s: Array

    def repeated(self, times: int) -> "Burdens":
        """The same transfer so many times, one after the other."""
        grown = ("launches", "span_s", "sm_s", "command_s", "backlog_s", "engine_s", "moving_s")
        return replace(self, **{name: times * getattr(self, name) for name in grown})

    @classmethod
    def of(cls, moving: Moving) -> "Burdens":
        """Describes a plan at C shapes."""
        legs, shapes = legs_of(moving.plan), moving.shapes
        backends, ones = {leg.backend for leg in legs}, np.ones(len(shapes))
        largest = np.array([largest_dma_bytes(moving.plan, shape) for shape in shapes], dtype=np.float64)
        command_s = largest / moving.link_bytes_per_s
        totals = np.array([shape.total_bytes for shape in shapes], dtype=np.float64)
        engines = backends != {Backend.KERNEL}
        if not any(leg.options for leg in legs):  # small rows are slower than the link
            command_s = np.maximum(command_s, moving.times_s * largest / totals)
        return cls(
            copies=ones * (Backend.KERNEL in backends),
            gathers=ones * (Backend.STAGED in backends),
            launches=np.array([max(_launches(leg, shape) for leg in legs) for shape in shapes], dtype=np.float64),
            span_s=moving.times_s * np.array([residence.span for residence in moving.residences]),
            sm_s=moving.times_s * np.array([residence.sm for residence in moving.residences]),
            command_s=command_s,
            backlog_s=np.maximum(command_s, moving.times_s) if _is_ahead(moving.plan) else command_s,
            engine_s=moving.times_s * engines,
            moving_s=engines * totals / moving.link_bytes_per_s,
        )


def residences(block: BlockRecord) -> dict[AnyPlan, Residence]:
    """By launch, how long kernels are there, of the plans of a block for which that is known."""
    found = {}
    for cell in block.cells:
        known = {m.metric: median(m.samples) for m in cell.measurements if m.samples}
        if usable(cell) and Metric.SPAN in known and Metric.SM in known:
            time_s = known[Metric.TRANSFER]
            residence = Residence(known[Metric.SPAN] / time_s, known[Metric.SM] / time_s)
            found[launched(cell.plan, block.shape)] = residence
    return found


def link_bytes_per_s(blocks: Iterable[BlockRecord]) -> float | None:
    """Bytes per second of one direction in the best of the contiguous copies; None if none was timed."""
    rates = [
        block.shape.total_bytes / median(transfer_samples(cell))
        for block in blocks
        if block.colocation is Colocation.IDLE
        for cell in block.cells
        if cell.kind == CandidateKind.CEILING and transfer_samples(cell)
    ]
    return max(rates, default=None)


def _launches(leg: CopyPlan, shape: TransferShape) -> int:
    if leg.options is None:
        return 0
    if leg.backend is Backend.STAGED:
        return -(-shape.total_bytes // largest_dma_bytes(leg, shape))
    chunk = leg.options.chunk_descriptors
    return 1 if chunk is None else -(-shape.merged_ranges // chunk)


def _is_ahead(plan: AnyPlan) -> bool:
    """Whether copy engines are given commands without waiting for the end of those before."""
    copies = [leg for leg in legs_of(plan) if leg.backend is not Backend.KERNEL]
    return any(leg.chunk_bytes is None or not leg.backpressure for leg in copies)
