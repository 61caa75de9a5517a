"""Many shapes at once, checked. Uses numpy, so it is loaded only when they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pega_tune.errors import UsageError
from pega_tune.kernels.shape import MAX_BYTES, TransferShape
from pega_tune.profiles.policy.errors import QuestionError
from pega_tune.profiles.policy.question import ALIGNMENTS, MANY_PER_RUN, ONE_RUN, PITCH, RANGES_PER_RUN, known_of

Integers: TypeAlias = Sequence[int] | npt.NDArray[np.integer]
Array: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Layouts:
    """How the ranges of shapes lie, as asked: a value for all shapes, or one for each; 0 or None if it is not known."""

    host_runs: Integers | int | None = None
    alignment: Integers | int | None = None
    pitch: Integers | int | None = None

    def arrays(self, count: int) -> tuple[Array, Array, Array] | None:
        """Host runs, alignment and pitch of so many shapes; None if nothing is known of any."""
        if self.host_runs is None and self.alignment is None and self.pitch is None:
            return None
        runs = _one_each("host_runs", self.host_runs, count)
        return runs, _one_each("alignment", self.alignment, count), _one_each("pitch", self.pitch, count)


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """Checked shapes, N of them.

    Attributes:
        ranges, sizes: (N,) merged ranges and average range size in bytes.
        known: (N,) what is known of how the ranges lie, as `question.known_of` has it; None if nothing of any.
    """

    ranges: Array
    sizes: Array
    known: Array | None


def check_shapes(merged_ranges: Integers, total_bytes: Integers, layouts: Layouts) -> Shapes:
    """The shapes, if they make sense.

    Raises:
        QuestionError: they do not; the message names the first that does not.
    """
    ranges, totals = _whole("merged_ranges", merged_ranges), _whole("total_bytes", total_bytes)
    if len(ranges) != len(totals):
        raise QuestionError(f"there are {len(ranges)} merged_ranges and {len(totals)} total_bytes")
    lying = layouts.arrays(len(ranges))
    bad = (ranges < 1) | (totals < ranges) | (totals > MAX_BYTES)
    sizes = totals // np.maximum(ranges, 1)
    known = None
    if lying is not None:
        runs, alignment, pitch = lying
        bad |= (runs < 0) | (runs > ranges) | ((pitch != 0) & (pitch < sizes))
        bad |= (alignment & (alignment - 1) != 0) | (alignment < 0) | (alignment > max(ALIGNMENTS))  # powers of two
        known = PITCH * (pitch > 0) + ONE_RUN * (runs == 1)
        known += MANY_PER_RUN * ((runs > 0) & (ranges // RANGES_PER_RUN >= runs))
    if bad.any():
        at = int(np.argmax(bad))
        _refuse(at, *(int(values[at]) for values in (ranges, totals, *(lying or ()))))
    return Shapes(ranges, sizes, known)


def _refuse(at: int, ranges: int, total_bytes: int, *lying: int) -> None:
    """Says what is wrong with one shape, in the words of a look-up of it alone."""
    try:
        shape = TransferShape(ranges, total_bytes)
        runs, alignment, pitch = (value or None for value in lying or (0, 0, 0))
        known_of(ranges, shape.average_range_bytes, runs, alignment, pitch)
    except UsageError as error:
        raise QuestionError(f"shape {at}: {error.message}") from None


def _one_each(name: str, given: Integers | int | None, count: int) -> Array:
    if given is None or isinstance(given, int | np.integer):
        return np.repeat(_whole(name, [given or 0]), count)
    values = _whole(name, given)
    if len(values) != count:
        raise QuestionError(f"there are {count} shapes and {len(values)} {name}")
    return values


def _whole(name: str, given: Integers) -> Array:
    """The numbers in 64 bits."""
    try:
        values = np.asarray(given)
    except (ValueError, TypeError):  # a sequence of sequences that differ in length
        values = np.empty((0, 0))
    if values.ndim != 1:
        raise QuestionError(f"{name} are a sequence of whole numbers, one for each shape")
    if values.dtype.kind == "i" or not values.size:
        return values.astype(np.int64, copy=False)
    for at, value in enumerate(given):  # rare, and one of them may be what is wrong
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise QuestionError(f"shape {at}: {name} is a whole number, not {value!r}")
        if abs(int(value)) > MAX_BYTES:
            raise QuestionError(f"shape {at}: {name} is at most 2^62, not {value}")
    return values.astype(np.int64)
