"""Bundles to read, and to damage."""

import hashlib
import json
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pega_tune.kernels.facts import DeviceFacts, Identity, Link, Provenance, Staleness
from pega_tune.kernels.plan import Variant, direct, kernel
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.bundle.document import Bundle
from pega_tune.profiles.policy.compiled import decode, digest, encode
from pega_tune.profiles.policy.table import CompiledPolicy, Option, Predicted, Table
from pega_tune.profiles.policy.terms import Colocation, ProfileState, Runtime

CREATED = datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC)

DEVICE = DeviceFacts(
    uuid="GPU-11111111-2222-3333-4444-555555555555",
    identity=Identity(
        compute_capability=(9, 0),
        sm_count=132,
        memory_gib=140,
        copy_engines=3,
        pci_device_id="10de:2335",
        pci_subsystem_id="10de:18bf",
        max_link=Link(5, 16),
        host_cpu="Some CPU",
        numa_distance=10,
        iommu=False,
        confidential=None,
    ),
    staleness=Staleness(driver="580.1", cuda="13.0", host_kernel="6.1", trained_link=Link(5, 16)),
    provenance=Provenance(name="NVIDIA H200", host="lab-7", max_sm_clock_hz=1_980_000_000),
)
SIMULATED = replace(DEVICE, uuid="sim:h200", provenance=Provenance("NVIDIA H200 (simulated)"))


def table(**changes: Any) -> Table:
    """Kernels below 1 MiB per range, DMA from there on, one way."""
    small, large = (Option(plan, Predicted(1e-3)) for plan in (kernel(Variant.WARP, 2, 1024), direct()))
    values: dict[str, Any] = {
        "direction": Direction.H2D,
        "colocation": Colocation.IDLE,
        "runtime": Runtime.FULL,
        "range_edges": (1,),
        "size_edges": (1, 1 << 20),
        "cells": ((small,), (large,)),
        "measured_ranges": (1, 16384),
        "measured_sizes": (1024, 1 << 21),
        "measured_bytes": (4096, 64 << 20),
        "margin": 0.02,
    }
    return Table(**values | changes)


def bundle(*tables: Table, **changes: Any) -> Bundle:
    compiled = encode(CompiledPolicy(tables or (table(),)))
    made = Bundle(
        profile_id="abc123",
        sweep_id="def456",
        state=ProfileState.PUBLISHED,
        reasons=(),
        created_at=CREATED,
        device=DEVICE,
        kernel_digest="k" * 64,
        method_version=3,
        compiled=compiled,
        policy=decode(compiled),
    )
    return replace(made, **changes)


def sealed(document: dict[str, Any]) -> bytes:
    """The document with the digest that it ought to have: a forger can compute it, too."""
    content = {key: value for key, value in document.items() if key not in ("sha256", "signature")}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
    return json.dumps({**document, "sha256": hashlib.sha256(text).hexdigest()}).encode()


def with_tables(document: dict[str, Any], blob: bytes) -> dict[str, Any]:
    """The document with other tables, of which every digest is right."""
    return {**document, "policy": {"sha256": digest(blob), "tables": b64encode(blob).decode()}}
