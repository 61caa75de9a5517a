"""The largest DMA command of a plan, against what the backends cut."""

from dataclasses import replace

import numpy as np
import pytest

from pega_tune.autotune.sweep.dma_commands import largest_dma_bytes
from pega_tune.kernels.chunks import cut
from pega_tune.kernels.descriptors import DESCRIPTOR_BYTES, tile_bytes
from pega_tune.kernels.host_runs import HostRuns
from pega_tune.kernels.plan import Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.progression_chunks import cut_progressions
from pega_tune.kernels.progressions import Progressions
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.kernels.staged_schedule import Scheduler
from pega_tune.kernels.staging import StagingBuffer, pipelined, whole

MIB = 1 << 20
CHUNKS = (None, 3000, 1 * MIB, 5 * MIB)
SIZES = [(16_384, 4096), (64, 65_536), (1, 9 * MIB), (12, 12 * MIB), (7, 40 * MIB)]


def _shape(ranges: int, size: int, runs: int | None = None, pitch: int | None = None) -> TransferShape:
    return TransferShape(ranges, ranges * size, Direction.H2D, host_runs=runs, pitch=pitch)


@pytest.mark.parametrize(("ranges", "size"), SIZES)
@pytest.mark.parametrize("chunk", CHUNKS)
def test_plain_copies_are_ranges_or_chunks_of_them(ranges: int, size: int, chunk: int | None) -> None:
    column = np.full(ranges, size, np.uint64)
    pieces = column if chunk is None else cut((column, column, column), chunk).columns[2]
    for backend in (Backend.DIRECT, Backend.BATCH):
        assert largest_dma_bytes(CopyPlan(backend, chunk_bytes=chunk), _shape(ranges, size)) == pieces.max()
    assert largest_dma_bytes(CopyPlan(Backend.PITCHED, chunk_bytes=chunk), _shape(ranges, size)) == pieces.max()


@pytest.mark.parametrize(("ranges", "size"), SIZES)
@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_progression_is_one_command_or_so_many_rows(ranges: int, size: int, chunk: int | None) -> None:
    table = np.array([[0], [0], [size], [2 * size], [size], [ranges]], np.uint64)
    copies = cut_progressions(Progressions(table, 1), chunk).copies
    plan, shape = CopyPlan(Backend.PITCHED, chunk_bytes=chunk), _shape(ranges, size, 1, 2 * size)
    assert largest_dma_bytes(plan, shape) == (copies.nbytes * copies.rows).max()


@pytest.mark.parametrize(("ranges", "size"), SIZES)
@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("runs", [1, 4])
@pytest.mark.parametrize("fused", [False, True])
def test_staging_copies_runs_in_parts(ranges: int, size: int, chunk: int | None, runs: int, fused: bool) -> None:
    if runs > ranges:
        return
    share = [len(part) * size for part in np.array_split(np.arange(ranges), runs)]
    nbytes = np.array(share, np.uint64)
    host = np.cumsum(nbytes + np.uint64(MIB)) & ~np.uint64(4095)
    found = HostRuns(np.empty(0, np.int32), host, nbytes, ranges * size, 0)
    buffer = StagingBuffer(0)
    ring = whole(found, buffer.halves()[0]) if fused else pipelined(found, buffer)
    largest = Scheduler().cut(found, ring, chunk).columns[2].max()
    leg = CopyPlan(Backend.STAGED, Variant.WARP, 256, KernelOptions(264), chunk)
    shape = replace(_shape(ranges, size, runs), direction=Direction.BOTH)
    told = largest_dma_bytes(PlanPair(leg, leg, fused=fused) if fused else leg, shape)
    assert largest <= told <= largest * 1.02 + 4096


def test_an_unknown_number_of_host_runs_is_taken_for_one() -> None:
    staged = CopyPlan(Backend.STAGED, Variant.WARP, 256, KernelOptions(264))
    assert largest_dma_bytes(staged, _shape(16_384, 4096)) == 16 * MIB
    assert largest_dma_bytes(staged, _shape(16_384, 4096, 16)) == 4 * MIB


@pytest.mark.parametrize(("ranges", "size"), SIZES)
@pytest.mark.parametrize("grid", [1, 2, 64])
def test_a_copy_kernel_uploads_its_descriptors(ranges: int, size: int, grid: int) -> None:
    tile = tile_bytes(ranges * size, grid * 256 // 32)
    shape = _shape(ranges, size)
    assert largest_dma_bytes(kernel(Variant.WARP, grid, 256), shape) == DESCRIPTOR_BYTES * ranges * -(-size // tile)
    assert largest_dma_bytes(kernel(Variant.BLOCK, grid, 256), shape) == DESCRIPTOR_BYTES * ranges


def test_a_pair_has_the_larger_of_its_two() -> None:
    pair = PlanPair(CopyPlan(Backend.DIRECT, chunk_bytes=1000), direct())
    assert largest_dma_bytes(pair, replace(_shape(4, 4096), direction=Direction.BOTH)) == 4096


def test_ranges_that_are_not_quite_equal_count_by_the_larger() -> None:
    assert largest_dma_bytes(direct(), TransferShape(3, 10, Direction.H2D)) == 4
