"""What the probe of batched copies has found, kept from one process to the next: it takes a process of its own."""

import hashlib
import json
from collections.abc import Callable
from typing import TypeAlias

from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.batch_probe import BatchSupport, probe_batch
from pega_tune.kernels.compile_cache import CompileCache
from pega_tune.kernels.compile_key import sources_digest
from pega_tune.kernels.facts import DeviceFacts

Environment: TypeAlias = tuple[tuple[str, str | None], ...]


class _NoSupportError(Exception):
    """Batched copies do not work, which is not remembered: that may be mended at any time."""

    def __init__(self, support: BatchSupport) -> None:
        super().__init__(support.reason)
        self.support = support


def remembered_batch(
    ordinal: int,
    facts: DeviceFacts,
    environment: Environment,
    cache: CompileCache,
    probe: Callable[[int], BatchSupport] = probe_batch,
) -> BatchSupport:
    """As `probe_batch`, but what has worked once on a device, with the same driver and sources, is not tried again.

    Args:
        ordinal: index of the device in CUDA's order.
        facts: of it.
        environment: variables on which it depends, which device has the ordinal and who is a client of MPS among them.
        cache: where to look first, and to keep that it works.
        probe: tries it.
    """

    def find() -> bytes:
        support = probe(ordinal)
        if support.signature is None:
            raise _NoSupportError(support)
        return support.signature.encode()

    try:
        kept = cache.kept(lambda: _name(facts, environment), find)
    except _NoSupportError as error:
        return error.support
    return BatchSupport(True, BatchSignature(kept.decode()))


def _name(facts: DeviceFacts, environment: Environment) -> str:
    staleness = facts.staleness
    parts = facts.uuid, staleness.driver, staleness.cuda, staleness.host_kernel, environment, sources_digest()
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest() + ".batch"
