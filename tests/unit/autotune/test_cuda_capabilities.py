from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pega_tune.autotune.capabilities import BatchCopies, HostLimits, MappedMemory
from pega_tune.autotune.cuda.capability_reading import batch_copies, host_limits, mapped_memory
from pega_tune.autotune.cuda.limits import locked_memory_limit
from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.batch_probe import BatchSupport
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.host import Host
from pega_tune.kernels.memory import OutOfPinnedMemoryError

BUS_ID = "0000:65:00.0"


def pinned(address: int, alias: int) -> Any:
    return lambda _nbytes: nullcontext(SimpleNamespace(address=address, alias=alias))


def failing(error: Exception) -> Any:
    def pin(_nbytes: int) -> None:
        raise error

    return pin


@pytest.mark.parametrize(
    ("pin", "mapped"),
    [
        (pinned(4096, 4096), MappedMemory.SAME_ADDRESS),
        (pinned(4096, 8192), MappedMemory.OTHER_ADDRESS),
        (failing(OutOfPinnedMemoryError("no")), None),
        (failing(DriverCallError("cuMemHostGetDevicePointer", 1)), MappedMemory.NONE),
    ],
)
def test_where_kernels_see_pinned_memory(pin: Any, mapped: MappedMemory | None) -> None:
    assert mapped_memory(pin) is mapped


def test_a_lost_context_tells_nothing_about_memory() -> None:
    with pytest.raises(DriverCallError, match="cuMemHostAlloc"):
        mapped_memory(failing(DriverCallError("cuMemHostAlloc", 700)))


def test_batched_copies_are_told_as_they_were_probed() -> None:
    assert batch_copies(BatchSupport(True, BatchSignature.V2)) == BatchCopies("v2")
    assert batch_copies(BatchSupport.no("killed by SIGSEGV")) == BatchCopies(None, "killed by SIGSEGV")


def test_limits_of_the_host(tmp_path: Path) -> None:
    files = {
        f"sys/bus/pci/devices/{BUS_ID}/numa_node": "1",
        "proc/self/cgroup": "0::/box",
        "sys/fs/cgroup/box/memory.max": "4096",
        "sys/devices/system/node/node0/cpulist": "0-4095",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    limits = host_limits(Host(tmp_path), BUS_ID)
    assert limits == HostLimits(locked_memory_limit(), 4096, 1, (0,))
    assert limits.remote


@pytest.mark.parametrize(("node", "ours"), [(None, ()), (1, ()), (None, (0,)), (1, (0, 1))])
def test_only_known_nodes_are_apart(node: int | None, ours: tuple[int, ...]) -> None:
    assert not HostLimits(device_node=node, process_nodes=ours).remote
