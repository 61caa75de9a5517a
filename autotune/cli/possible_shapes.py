"""Whether what people say of how ranges lie can be true of any ranges."""

from typing import Final

from pega_tune.errors import UsageError
from pega_tune.kernels.shape import TransferShape

_ALIGNMENTS: Final = (1, 2, 4, 8, 16)


def possible(shape: TransferShape) -> TransferShape:
    """The shape itself.

    Raises:
        UsageError: no ranges have it; the message names what is contradictory.
    """
    if shape.host_runs is not None and not 1 <= shape.host_runs <= shape.merged_ranges:
        raise UsageError(f"host runs are 1 to the number of ranges, not {shape.host_runs}")
    if shape.alignment is not None:
        _require_alignment(shape, shape.alignment)
    if shape.pitch is not None:
        _require_pitch(shape, shape.pitch)
    return shape


def _require_alignment(shape: TransferShape, alignment: int) -> None:
    if alignment not in _ALIGNMENTS:
        raise UsageError(f"alignment is one of {', '.join(map(str, _ALIGNMENTS))}, not {alignment}")
    if shape.total_bytes % alignment or shape.average_range_bytes < alignment:
        sizes = f"{shape.merged_ranges} ranges of {shape.total_bytes} bytes in all"
        raise UsageError(f"the alignment {alignment} divides the size of every range: {sizes} do not have it")
    if shape.pitch is not None and shape.pitch % alignment:
        raise UsageError(f"the alignment {alignment} divides every address: the pitch {shape.pitch} is no multiple")


def _require_pitch(shape: TransferShape, pitch: int) -> None:
    ranges, size = shape.merged_ranges, shape.average_range_bytes
    if pitch < size:
        raise UsageError(f"pitch is at least the size of a range, {size} bytes, not {pitch}")
    if shape.total_bytes % ranges:
        raise UsageError(
            f"ranges at a constant pitch are equal, and {ranges} do not divide {shape.total_bytes} bytes",
            "leave the pitch out, or give bytes that the number of ranges divides",
        )
    if shape.host_runs not in (None, 1, ranges):
        raise UsageError(
            f"a pitch is constant on both sides: {ranges} ranges are then 1 host run or {ranges}, not {shape.host_runs}"
        )
    if pitch == size and shape.host_runs == 1 < ranges:
        raise UsageError("ranges that are adjacent on both sides count as one", "give 1 range of all bytes")
