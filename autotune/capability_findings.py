"""What the doctor says of the capabilities of a device."""

from collections.abc import Iterator
from typing import Final

from pega_tune.autotune.capabilities import BatchCopies, HostLimits, MappedMemory
from pega_tune.autotune.engine import Capabilities
from pega_tune.autotune.findings import Finding, Status
from pega_tune.kernels.stream_options import PartitionSupport

_GIB: Final = 1 << 30
_MAPPED: Final = {
    MappedMemory.SAME_ADDRESS: "kernels see pinned host memory at its own address",
    MappedMemory.OTHER_ADDRESS: "kernels see pinned host memory at another address than the host",
    MappedMemory.NONE: "kernels do not see pinned host memory",
    None: "unknown: no memory could be pinned",
}


def findings_of(device: str, capabilities: Capabilities) -> Iterator[Finding]:
    """One finding for each kind of thing that plans can ask for.

    Args:
        device: how it is called in the findings.
        capabilities: of its engine.
    """
    backends = ", ".join(map(str, capabilities.backends))
    threads, memory = capabilities.max_threads, _gib(capabilities.device_bytes)
    detail = f"plans of {backends}; CTAs of up to {threads} threads; blocks may use {memory} of device memory"
    yield Finding("engine", Status.OK, f"{device}: {detail}")
    yield _batch(device, capabilities.batch)
    yield Finding("priorities", Status.OK, f"{device}: {_priorities(capabilities)}")
    yield _partitions(device, capabilities.partitions)
    engines = "unknown" if capabilities.copy_engines is None else str(capabilities.copy_engines)
    yield Finding("copy engines", Status.OK, f"{device}: {engines}")
    yield _mapped(device, capabilities.mapped_memory)
    yield Finding("host memory", Status.OK, f"{device}: {_memory(capabilities)}")
    yield _nodes(device, capabilities.host)


def _batch(device: str, batch: BatchCopies) -> Finding:
    if batch.signature is not None:
        return Finding("batched copies", Status.OK, f"{device}: they work, signature {batch.signature}")
    hint = "sweeps work, and leave batch plans out"
    return Finding("batched copies", Status.WARNING, f"{device}: they do not work: {batch.reason}", hint)


def _priorities(capabilities: Capabilities) -> str:
    bounds = capabilities.priority_range
    effective = ", ".join(map(str, capabilities.priorities))
    return f"streams may ask for {bounds.weakest} (weakest) to {bounds.strongest} (strongest), and get {effective}"


def _partitions(device: str, partitions: PartitionSupport) -> Finding:
    sizes = partitions.sizes
    if sizes is not None:
        detail = f"{device}: {sizes.least_sms} to {sizes.most_sms} SMs in steps of {sizes.step_sms}"
        return Finding("SM partitions", Status.OK, detail)
    hint = "sweeps work, and leave plans with a partition out"
    return Finding("SM partitions", Status.WARNING, f"{device}: they do not work: {partitions.reason}", hint)


def _mapped(device: str, mapped: MappedMemory | None) -> Finding:
    if mapped is MappedMemory.NONE:
        hint = "plans with a kernel need it: look at how the driver is installed"
        return Finding("mapped memory", Status.WARNING, f"{device}: {_MAPPED[mapped]}", hint)
    return Finding("mapped memory", Status.OK, f"{device}: {_MAPPED[mapped]}")


def _memory(capabilities: Capabilities) -> str:
    host = capabilities.host
    locked = "none" if host.locked_bytes is None else _gib(host.locked_bytes)
    group = "none" if host.cgroup_bytes is None else _gib(host.cgroup_bytes)
    pinned = _gib(capabilities.host_bytes)
    return f"blocks may pin {pinned}; limit on locked memory: {locked}; limit of the control group: {group}"


def _nodes(device: str, host: HostLimits) -> Finding:
    ours = ", ".join(map(str, host.process_nodes)) or "unknown"
    node = "unknown" if host.device_node is None else str(host.device_node)
    detail = f"{device}: on node {node}; this process runs on {ours}"
    if host.remote:
        hint = f"transfers cross the nodes: start it with `numactl --cpunodebind={node} --membind={node}`"
        return Finding("NUMA", Status.WARNING, detail, hint)
    return Finding("NUMA", Status.OK, detail)


def _gib(nbytes: int) -> str:
    return f"{nbytes / _GIB:.1f} GiB" if nbytes >= _GIB else f"{nbytes / (1 << 20):.1f} MiB"
