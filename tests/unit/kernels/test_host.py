from pathlib import Path

import pytest

from pega_tune.kernels.facts import Link
from pega_tune.kernels.host import Host

BUS_ID = "0000:65:00.0"
DEVICE = f"sys/bus/pci/devices/{BUS_ID}"
GIB = 1 << 30


def _host(root: Path, files: dict[str, str]) -> Host:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Host(root)


def test_an_empty_host_tells_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path)
    answers = [
        host.cpu_model(),
        host.nvidia_driver(),
        host.pci_ids(BUS_ID),
        host.max_link(BUS_ID),
        host.numa_distance(BUS_ID, {0}),
        host.iommu(BUS_ID),
        host.available_bytes(),
        host.cgroup_headroom_bytes(),
        host.cgroup_limit_bytes(),
        host.numa_node(BUS_ID),
    ]
    assert answers == [None] * 10
    assert host.process_nodes() == ()


def test_the_real_host_answers_without_an_error() -> None:
    assert (Host().available_bytes() or 0) > 0
    assert Host().pci_ids("ffff:ff:1f.7") is None


def test_cpu_models(tmp_path: Path) -> None:
    assert _host(tmp_path / "x86", {"proc/cpuinfo": "model name\t: AMD EPYC 9554 \n"}).cpu_model() == "AMD EPYC 9554"
    arm = _host(tmp_path / "arm", {"proc/cpuinfo": "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"})
    assert arm.cpu_model() == "Arm 0x41/0xd4f"


@pytest.mark.parametrize(
    ("module", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Tue Jan", "580.159.03"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build", "580.65.06"),
        ("something else", None),
    ],
)
def test_driver_versions(tmp_path: Path, module: str, version: str | None) -> None:
    assert _host(tmp_path, {"proc/driver/nvidia/version": module + "\n"}).nvidia_driver() == version


@pytest.mark.parametrize(
    ("speed", "width", "link"),
    [
        ("32.0 GT/s PCIe", "16", Link(5, 16)),
        ("16 GT/s", "8", Link(4, 8)),
        ("Unknown", "16", None),
        ("32.0 GT/s PCIe", "0", None),
        ("32.0 GT/s PCIe", "255", None),
    ],
)
def test_links(tmp_path: Path, speed: str, width: str, link: Link | None) -> None:
    host = _host(tmp_path, {f"{DEVICE}/max_link_speed": speed, f"{DEVICE}/max_link_width": width})
    assert host.max_link(BUS_ID) == link


def test_the_port_above_bounds_the_link(tmp_path: Path) -> None:
    real = "sys/devices/pci0000:64/0000:64:01.0"
    files = {"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16"}
    port = {"max_link_speed": "16.0 GT/s PCIe", "max_link_width": "8"}
    host = _host(
        tmp_path,
        {f"{real}/{BUS_ID}/{k}": v for k, v in files.items()} | {f"{real}/{k}": v for k, v in port.items()},
    )
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    (tmp_path / DEVICE).symlink_to(tmp_path / real / BUS_ID)
    assert host.max_link(BUS_ID) == Link(4, 8)


@pytest.mark.parametrize(("cpus", "distance"), [({0}, 10), ({5}, 21), ({0, 5}, 10), ({99}, None)])
def test_numa_distance(tmp_path: Path, cpus: set[int], distance: int | None) -> None:
    nodes = "sys/devices/system/node"
    host = _host(
        tmp_path,
        {
            f"{DEVICE}/numa_node": "0\n",
            f"{nodes}/node0/distance": "10 21\n",
            f"{nodes}/node0/cpulist": "0-3\n",
            f"{nodes}/node1/distance": "21 10\n",
            f"{nodes}/node1/cpulist": "4-6,7\n",
        },
    )
    assert host.numa_distance(BUS_ID, cpus) == distance
    assert host.numa_node(BUS_ID) == 0
    assert host.process_nodes(cpus) == tuple(sorted({cpu // 4 for cpu in cpus if cpu < 8}))


def test_a_device_without_a_node_has_no_distance(tmp_path: Path) -> None:
    host = _host(tmp_path, {f"{DEVICE}/numa_node": "-1\n"})
    assert host.numa_distance(BUS_ID, {0}) is host.numa_node(BUS_ID) is None


@pytest.mark.parametrize(("kind", "translates"), [("DMA-FQ", True), ("DMA", True), ("identity", False), (None, False)])
def test_iommu(tmp_path: Path, kind: str | None, translates: bool) -> None:
    files = {f"{DEVICE}/vendor": "0x10de"}
    if kind:
        files[f"{DEVICE}/iommu_group/type"] = kind + "\n"
    assert _host(tmp_path, files).iommu(BUS_ID) is translates


def test_available_memory(tmp_path: Path) -> None:
    assert _host(tmp_path, {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   2048 kB\n"}).available_bytes() == 2 << 20


def test_the_tightest_control_group_counts(tmp_path: Path) -> None:
    host = _host(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pod/box\n",
            "sys/fs/cgroup/pod/box/memory.max": "max\n",
            "sys/fs/cgroup/pod/box/memory.current": f"{GIB}\n",
            "sys/fs/cgroup/pod/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/pod/memory.current": f"{3 * GIB}\n",
            "sys/fs/cgroup/pod/memory.stat": f"anon 5\ninactive_file {GIB // 2}\n",
        },
    )
    assert host.cgroup_headroom_bytes() == GIB + GIB // 2
    assert host.cgroup_limit_bytes() == 4 * GIB


def test_inside_a_container_our_group_is_the_root(tmp_path: Path) -> None:
    host = _host(
        tmp_path,
        {
            "proc/self/cgroup": "0::/../../system.slice/docker-1.scope\n",
            "sys/fs/cgroup/memory.max": f"{2 * GIB}\n",
            "sys/fs/cgroup/memory.current": f"{GIB}\n",
        },
    )
    assert host.cgroup_headroom_bytes() == GIB


@pytest.mark.parametrize(("limit", "headroom"), [(2 * GIB, GIB), (2**63 - 4096, None)])
def test_version_1_groups(tmp_path: Path, limit: int, headroom: int | None) -> None:
    memory = "sys/fs/cgroup/memory"
    host = _host(
        tmp_path,
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/a\n",
            f"{memory}/a/memory.limit_in_bytes": f"{limit}\n",
            f"{memory}/a/memory.usage_in_bytes": f"{GIB}\n",
        },
    )
    assert host.cgroup_headroom_bytes() == headroom
    assert host.cgroup_limit_bytes() == (limit if headroom else None)
