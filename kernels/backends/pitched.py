"""The `pitched` backend: one 2-D DMA copy per arithmetic progression, plain ones for the rest."""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.backends.base import require
from pega_tune.kernels.descriptors import sides
from pega_tune.kernels.plan import Backend, CopyPlan
from pega_tune.kernels.program import COMMAND, Commands, Op, Program, ProgramBuilder, Route
from pega_tune.kernels.progression_chunks import Groups, cut_progressions
from pega_tune.kernels.progressions import ProgressionFinder, Progressions
from pega_tune.kernels.ranges import Addresses, RangeBatch
from pega_tune.kernels.shape import Direction

_SIDE: Final = (
    ("XInBytes", np.uint64),
    ("Y", np.uint64),
    ("MemoryType", np.uint32),
    ("Host", np.uint64),
    ("Device", np.uint64),
    ("Array", np.uint64),
    ("Pitch", np.uint64),
)
CUDA_MEMCPY2D: Final = np.dtype(
    [(f"{side}{name}", kind) for side in ("src", "dst") for name, kind in _SIDE]
    + [("WidthInBytes", np.uint64), ("Height", np.uint64)],
    align=True,
)
"""`CUDA_MEMCPY2D_v2` of cuda.h."""

_HOST, _DEVICE = 1, 2  # CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE

_Copies: TypeAlias = NDArray[Any]  # of CUDA_MEMCPY2D
_Indices: TypeAlias = NDArray[np.int64]


class PitchedBackend:
    """Runs on copy engines alone, with little submission where ranges lie in strides. See `TransferBackend`.

    Its programs own what they refer to, so preparing the next one makes none stale.
    """

    def __init__(self, finder: ProgressionFinder) -> None:
        """Keeps what is needed to run.

        Args:
            finder: for this backend alone.
        """
        self._finder = finder

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan, route: Route) -> Program:
        """As `TransferBackend.prepare`.

        In each chunk the 2-D copies come first: one keeps the copy engine busy while many plain ones are submitted.
        """
        require(plan, Backend.PITCHED)
        groups = cut_progressions(self._finder.find(batch), plan.chunk_bytes)
        builder = ProgramBuilder(route)
        legs = _Legs(groups, direction, route.stream)
        for number in range(len(groups)):
            if number and plan.backpressure:
                builder.complete_first()
            legs.add(number, builder)
        builder.keep(legs.structs)
        return builder.finish()


class _Legs:
    """The copies of all groups, those in 2-D apart from the plain ones.

    Attributes:
        structs: (k,) of `CUDA_MEMCPY2D`.
    """

    def __init__(self, groups: Groups, direction: Direction, stream: int) -> None:
        copies = groups.copies
        single = copies.rows == 1
        plain, pitched = np.flatnonzero(single), np.flatnonzero(~single)
        self._direction = direction
        self._plain_bounds = _positions(plain, groups)
        self._pitched_bounds = _positions(pitched, groups)
        destination, source = sides(copies.device, copies.host, direction)
        self._plain: tuple[Addresses, Addresses, Addresses] = (destination[plain], source[plain], copies.nbytes[plain])
        self.structs = _structs(copies, pitched, direction)
        self._commands = _commands(self.structs, stream)

    def add(self, number: int, builder: ProgramBuilder) -> None:
        """Puts the copies of one group into a program."""
        first, end = self._pitched_bounds[number : number + 2]
        if end > first:
            builder.extend(self._commands[first:end])
        first, end = self._plain_bounds[number : number + 2]
        if end == first + 1:
            destination, source, nbytes = (int(column[first]) for column in self._plain)
            builder.copy(self._direction, (destination, source), nbytes)
        elif end > first:
            builder.copies(self._direction, self._plain, (first, end - first))


def _positions(chosen: _Indices, groups: Groups) -> list[int]:
    """(g + 1,) where the groups begin among the chosen copies, and their end."""
    bounds: list[int] = np.searchsorted(chosen, groups.bounds).tolist()
    return bounds


def _structs(copies: Progressions, chosen: _Indices, direction: Direction) -> _Copies:
    """(k,) parameters of the chosen copies; what a 2-D copy does not use is 0."""
    structs = np.zeros(len(chosen), CUDA_MEMCPY2D)
    device, host = ("dst", "src") if direction is Direction.H2D else ("src", "dst")
    structs[f"{host}MemoryType"] = _HOST
    structs[f"{host}Host"] = copies.host[chosen]
    structs[f"{host}Pitch"] = copies.host_pitch[chosen]
    structs[f"{device}MemoryType"] = _DEVICE
    structs[f"{device}Device"] = copies.device[chosen]
    structs[f"{device}Pitch"] = copies.device_pitch[chosen]
    structs["WidthInBytes"] = copies.nbytes[chosen]
    structs["Height"] = copies.rows[chosen]
    return structs


def _commands(structs: _Copies, stream: int) -> Commands:
    """(k,) commands, one for each 2-D copy."""
    commands = np.zeros(len(structs), COMMAND)
    commands["op"] = Op.COPY_2D
    commands["stream"] = stream
    commands["a"] = structs.ctypes.data + CUDA_MEMCPY2D.itemsize * np.arange(len(structs), dtype=np.uint64)
    return commands
