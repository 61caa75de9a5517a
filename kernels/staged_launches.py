"""Launches of the copy kernel in staged transfers, and the calls that write their descriptors."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.commands import COMMAND, address_of
from pega_tune.kernels.descriptors import DescriptorSpace
from pega_tune.kernels.plan import WARP_THREADS
from pega_tune.kernels.program import Launch, Program, ProgramBuilder
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staged_descriptors import PIECE, writer_address
from pega_tune.kernels.staged_leg import StagedLeg


@dataclass(frozen=True, slots=True)
class StagingKernel:
    """The copy kernel with its bounds.

    Attributes:
        function: CUfunction handle.
        threads: threads per CTA.
        max_grid_blocks: most CTAs.
        upload: whether its descriptors are uploaded before it; otherwise it reads them in pinned memory.
    """

    function: int
    threads: int
    max_grid_blocks: int
    upload: bool

    @property
    def warps(self) -> int:
        """Warps of the largest grid."""
        return self.max_grid_blocks * self.threads // WARP_THREADS


class Launches:
    """Launches of the copy kernel, each over descriptors that the host writes before, while the program runs.

    Attributes:
        kernel: the kernel.
        pieces: (n + 1,) of `PIECE`, for the n parts that are described.
    """

    def __init__(self, builder: ProgramBuilder, kernel: StagingKernel, space: DescriptorSpace, parts: int) -> None:
        self.kernel: Final = kernel
        self.pieces: Final[NDArray[Any]] = np.zeros(parts + 1, PIECE)
        self._builder = builder
        self._next = 0
        self._uploads = [0] * parts  # for every piece its command
        self._launches = [0] * parts  # likewise
        self._open = range(0)  # pieces that have been described and not launched
        self._address = address_of(self.pieces)
        rows = (space.pinned_address, space.device_address if kernel.upload else space.pinned_alias)
        per_block = kernel.threads // WARP_THREADS
        # The fields of a piece behind those that are its own; launch and upload are told by `attach`.
        self._shared = (0, 0, space.capacity, *rows, 0, 0, kernel.max_grid_blocks, per_block)

    def describe(self, stream: int, *parts: tuple[StagedLeg, int]) -> None:
        """Writes the descriptors of the next launch, and uploads them if that is to be, in its stream.

        Args:
            stream: of the launch.
            parts: legs, and which part of each; those that a leg does not have are left out.
        """
        first = self._next
        for leg, part in parts:
            if part < leg.schedule.counts.parts:
                self.pieces[self._next] = (leg.address, part, self._next == first, *self._shared)
                self._builder.call(writer_address(), self._address + self._next * PIECE.itemsize)
                self._next += 1
        self._open = range(first, self._next)
        if self.kernel.upload:
            for number in self._open:
                self._uploads[number] = len(self._builder)
            self._builder.copy(Direction.H2D, (0, 0), 0, stream)

    def launch(self, stream: int) -> None:
        """Runs what has been described."""
        for number in self._open:
            self._launches[number] = len(self._builder)
        self._builder.launch(Launch(self.kernel.function, 0, self.kernel.threads, (0, 0)), stream)

    def attach(self, program: Program) -> None:
        """Tells the writer of descriptors where the launches of the program, now that it is there, are."""
        base = address_of(program.commands)
        self.pieces["launch"][:-1] = [base + row * COMMAND.itemsize for row in self._launches]
        if self.kernel.upload:
            self.pieces["upload"][:-1] = [base + row * COMMAND.itemsize for row in self._uploads]
