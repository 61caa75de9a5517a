import pickle
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from pega_tune.autotune.cuda.abilities import Abilities
from pega_tune.autotune.cuda.buffers import Buffers
from pega_tune.autotune.cuda.factory import CudaEngineFactory
from pega_tune.autotune.cuda.layout import equal_ranges, extent_bytes
from pega_tune.autotune.cuda.limits import MemoryLimits, device_limit, host_limit, locked_memory_limit
from pega_tune.autotune.cuda.need import Need
from pega_tune.autotune.engine import MemoryLimitError
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.batch_probe import BatchSupport
from pega_tune.kernels.host import Host
from pega_tune.kernels.plan import (
    Backend,
    Completion,
    CopyPlan,
    KernelOptions,
    PlanPair,
    Variant,
    direct,
    kernel,
)
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.kernels.stream_options import PartitionSizes, PartitionSupport, PriorityRange
from tests.helpers.heap import Heap

MIB = 1 << 20
GIB = 1 << 30
H2D, D2H = Direction.BOTH.legs


def _buffers(heap: Heap, device_bytes: int = GIB, host_bytes: int = GIB) -> Buffers:
    return Buffers(MemoryLimits(device_bytes, host_bytes), heap.allocators())


def test_slabs_hold_the_batch_and_the_mirror_the_largest_slab() -> None:
    shape = TransferShape(100, 100 * 4096)
    need = Need.of(shape.merged_ranges, extent_bytes(shape))
    with _buffers(Heap()) as buffers:
        buffers.reserve({H2D: need, D2H: Need.of(1, 5 * MIB)})
        slabs = buffers[H2D]
        batch = slabs.batch(equal_ranges(shape, 1))
        assert len(batch) == 100
        assert len(slabs.host) >= need.extent_bytes
        assert slabs.descriptors.capacity >= 200  # each range in two tiles
        assert len(buffers.mirror) >= 5 * MIB


def test_memory_is_kept_while_it_suffices() -> None:
    heap = Heap()
    with _buffers(heap) as buffers:
        buffers.reserve({H2D: Need.of(10, 4 * MIB)})
        slabs, allocations = buffers[H2D], heap.allocations
        for size in (1, MIB, 4 * MIB):
            buffers.reserve({H2D: Need.of(5, size)})
        assert buffers[H2D] is slabs
        assert heap.allocations == allocations


def test_never_two_generations_at_once() -> None:
    heap = Heap()
    with _buffers(heap) as buffers:
        for size in range(1, 13):
            buffers.reserve({H2D: Need.of(10, size * 2 * MIB), D2H: Need.of(10, size * 2 * MIB)})
        assert heap.peak <= 5 * 24 * MIB + MIB  # two slabs on each side and the mirror
    assert heap.open == []


def test_what_another_direction_holds_is_given_up_for_one_that_needs_it() -> None:
    heap = Heap()
    with _buffers(heap, host_bytes=50 * MIB) as buffers:
        buffers.reserve({H2D: Need.of(1, 10 * MIB), D2H: Need.of(1, 10 * MIB)})
        buffers.reserve({D2H: Need.of(1, 22 * MIB)})
        assert buffers[D2H].need.extent_bytes == 22 * MIB
        with pytest.raises(KeyError):
            buffers[H2D]


@pytest.mark.parametrize(
    ("device_bytes", "host_bytes", "kind"), [(9 * MIB, GIB, "device memory"), (GIB, 19 * MIB, "pinned host memory")]
)
def test_limits_are_kept_and_named(device_bytes: int, host_bytes: int, kind: str) -> None:
    heap = Heap()
    with _buffers(heap, device_bytes, host_bytes) as buffers:
        with pytest.raises(MemoryLimitError, match=f"bytes of {kind} are needed"):
            buffers.reserve({H2D: Need.of(1, 10 * MIB)})
        assert heap.open == []
        buffers.reserve({H2D: Need.of(1, 2 * MIB)})


def test_memory_that_the_driver_does_not_give_leaves_nothing_behind() -> None:
    heap = Heap(most=8 * MIB)
    with _buffers(heap) as buffers:
        with pytest.raises(MemoryLimitError, match="pinned host memory"):
            buffers.reserve({H2D: Need.of(1, 10 * MIB)})
        assert heap.open == []
        buffers.reserve({H2D: Need.of(1, 8 * MIB)})


def _host(root: Path, available: int, headroom: int | None = None) -> Host:
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(f"MemAvailable: {available // 1024} kB\n")
    if headroom is not None:
        (root / "proc/self").mkdir()
        (root / "proc/self/cgroup").write_text("0::/\n")
        (root / "sys/fs/cgroup").mkdir(parents=True)
        (root / "sys/fs/cgroup/memory.max").write_text(f"{headroom}\n")
        (root / "sys/fs/cgroup/memory.current").write_text("0\n")
    return Host(root)


def _never(nbytes: int) -> bool:
    raise AssertionError(f"{nbytes} bytes were pinned for nothing")


def test_a_quarter_of_free_memory_stays_free(tmp_path: Path) -> None:
    assert host_limit(_host(tmp_path, 100 * GIB), None, _never) == 75 * GIB


def test_the_control_group_bounds_the_host(tmp_path: Path) -> None:
    limit = host_limit(_host(tmp_path, 100 * GIB, 2 * GIB), None, _never)
    assert 0 < limit <= 2 * GIB - 256 * MIB


def test_a_tiny_host_gives_nothing(tmp_path: Path) -> None:
    assert host_limit(_host(tmp_path, 100 * MIB), None, _never) == 0


def test_a_small_limit_on_locked_memory_binds_if_the_driver_heeds_it(tmp_path: Path) -> None:
    host = _host(tmp_path, 100 * GIB)
    tried: list[int] = []

    def refuses(nbytes: int) -> bool:
        tried.append(nbytes)
        return False

    assert host_limit(host, 64 << 10, refuses) == 64 << 10
    assert 64 << 10 < tried[0] < GIB
    assert host_limit(host, 64 << 10, lambda _nbytes: True) == 75 * GIB


def test_a_large_limit_on_locked_memory_is_respected_untried(tmp_path: Path) -> None:
    host = _host(tmp_path, 100 * GIB)
    assert host_limit(host, 8 * GIB, _never) == 8 * GIB
    assert host_limit(host, 80 * GIB, _never) == 75 * GIB


def test_the_limit_on_locked_memory_of_this_process() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    assert locked_memory_limit() == (None if soft == resource.RLIM_INFINITY else soft)


def test_device_memory_keeps_a_margin() -> None:
    assert device_limit(100 * GIB) == 90 * GIB
    assert device_limit(GIB) == GIB // 2
    assert device_limit(100 * MIB) == 0


def test_the_user_can_only_lower_limits() -> None:
    limits = MemoryLimits(10, 20)
    assert limits.capped(None, None) == limits
    assert limits.capped(5, 50) == MemoryLimits(5, 20)


ABILITIES = Abilities(PriorityRange(0, -5), 768, partitions=PartitionSupport(PartitionSizes(8, 8, 132)))
RUNNABLE = [
    CopyPlan(Backend.PITCHED, chunk_bytes=4096),
    staged(),
    direct(),
    kernel(Variant.WARP, 2, 768),
    kernel(Variant.BLOCK, 65_535, 256, -5),
    CopyPlan(Backend.DIRECT, chunk_bytes=4096),
    CopyPlan(Backend.DIRECT, chunk_bytes=4096, backpressure=False),
    CopyPlan(Backend.KERNEL, Variant.WARP, 256, KernelOptions(2, 1024)),
    CopyPlan(Backend.KERNEL, Variant.WARP, 256, KernelOptions(64), sm_partition=8),
    replace(staged(), sm_partition=128, stream_priority=-5),
]
REFUSED = [
    CopyPlan(Backend.STAGED, Variant.BLOCK, 256, KernelOptions(2)),
    CopyPlan(Backend.BATCH),
    kernel(Variant.WARP, 2, 1024),
    kernel(Variant.WARP, 2, 256, -6),
    kernel(Variant.WARP, 2, 256, 1),
    CopyPlan(Backend.BATCH, prefer_overlap=True),
    replace(kernel(Variant.WARP, 2, 256), sm_partition=12),
    replace(staged(), sm_partition=132),
]


@pytest.mark.parametrize("plan", RUNNABLE, ids=lambda plan: plan.key)
def test_plans_that_run(plan: CopyPlan) -> None:
    assert ABILITIES.refusal(plan) == ""
    assert ABILITIES.refusal(PlanPair(plan, direct())) == ""


@pytest.mark.parametrize("plan", REFUSED, ids=lambda plan: plan.key)
def test_plans_that_do_not_run_say_why(plan: CopyPlan) -> None:
    reason = ABILITIES.refusal(plan)
    assert reason
    assert ABILITIES.refusal(PlanPair(plan, direct())) == reason
    assert ABILITIES.refusal(PlanPair(direct(), plan)) == reason


@pytest.mark.parametrize("completion", list(Completion))
def test_both_directions_are_waited_for_in_one_way(completion: Completion) -> None:
    plan = replace(direct(), completion=completion)
    assert ABILITIES.refusal(plan) == ABILITIES.refusal(PlanPair(plan, plan)) == ""
    mixed = ABILITIES.refusal(PlanPair(plan, direct()))
    assert ("one thread waits" in mixed) == (completion is not Completion.POLL)


def test_only_staged_plans_with_one_launch_are_fused() -> None:
    assert ABILITIES.refusal(PlanPair(staged(), staged(chunk_bytes=4096), fused=True)) == ""
    assert "share a launch" in ABILITIES.refusal(PlanPair(staged(), direct(), fused=True))
    stream = {"stream_priority": -1}, {"sm_partition": 8}
    for other in (staged(grid=1), staged(threads=32), *(replace(staged(), **options) for options in stream)):
        assert "a shared launch has one" in ABILITIES.refusal(PlanPair(staged(), other, fused=True))


def test_a_trial_that_failed_is_the_reason_why_batches_do_not_run() -> None:
    failed = replace(ABILITIES, batch=BatchSupport.no("the probe was killed by SIGSEGV"))
    assert failed.refusal(CopyPlan(Backend.BATCH)).endswith("the probe was killed by SIGSEGV")
    assert Backend.BATCH not in failed.backends
    works = replace(ABILITIES, batch=BatchSupport(True, BatchSignature.V1))
    assert works.refusal(CopyPlan(Backend.BATCH)) == ""
    assert set(works.backends) == set(Backend)


def test_partitions_that_do_not_work_are_told_with_the_reason() -> None:
    confined = replace(kernel(Variant.WARP, 64, 256), sm_partition=8)
    without = replace(ABILITIES, partitions=PartitionSupport.no("cuGreenCtxCreate failed"))
    assert without.refusal(confined) == "SM partitions do not work here: cuGreenCtxCreate failed"
    assert without.refusal(replace(confined, sm_partition=None)) == ""
    assert "have not been tried" in Abilities(PriorityRange(0, -5), 1024).refusal(confined)


def test_staging_takes_what_the_limits_leave() -> None:
    need = Need.of(1, 10 * MIB).staged()
    rest = 2 * need.host_bytes
    for room, share in ((GIB, 128 * MIB), (101 * MIB, 50 * MIB), (3 * MIB, None)):
        with _buffers(Heap(), device_bytes=rest + room) as buffers:
            buffers.reserve({H2D: need, D2H: need})
            assert [slabs.staging and slabs.staging.capacity for slabs in (buffers[H2D], buffers[D2H])] == [share] * 2


def test_staging_is_given_up_for_a_block_that_does_not_need_it() -> None:
    with _buffers(Heap(), device_bytes=200 * MIB) as buffers:
        buffers.reserve({H2D: Need.of(1, 10 * MIB).staged()})
        buffers.reserve({H2D: Need.of(1, 10 * MIB)})
        assert buffers[H2D].staging is not None
        buffers.reserve({H2D: Need.of(1, 150 * MIB)})
        assert buffers[H2D].staging is None


def test_the_factory_travels_to_another_process() -> None:
    factory = CudaEngineFactory("GPU-1", 5, 6)
    assert pickle.loads(pickle.dumps(factory)) == factory
