"""Facts, plans and policies to test with, by hand and by hypothesis."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from pega_tune.kernels.facts import DeviceFacts, Identity, Link, Provenance, Staleness
from pega_tune.kernels.plan import (
    AnyPlan,
    Backend,
    Completion,
    CopyPlan,
    KernelOptions,
    PlanPair,
    Variant,
    direct,
    kernel,
)
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.table import MAX_OPTIONS, CompiledPolicy, Option, Predicted, Table
from pega_tune.profiles.policy.terms import Colocation, Hint, ProfileState, Runtime

DIRECT = direct()
BATCH = CopyPlan(Backend.BATCH)
NARROW = kernel(Variant.WARP, 1, 1024)
WIDE = kernel(Variant.BLOCK, 65_535, 256)
STAGED = CopyPlan(Backend.STAGED, Variant.WARP, 256, KernelOptions(1, 128), chunk_bytes=1 << 21)

CREATED = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
UNTIL_NOW_S = 3600.0
GEN5 = Link(5, 16)


def now() -> float:
    """A clock an hour after `CREATED`."""
    return CREATED.timestamp() + UNTIL_NOW_S


def facts(
    uuid: str = "GPU-1",
    *,
    sm_count: int = 132,
    link: Link | None = GEN5,
    driver: str = "580.159",
    pci: str | None = "10de:2335",
) -> DeviceFacts:
    identity = Identity((9, 0), sm_count, 140, 3, pci_device_id=pci, max_link=link, host_cpu="cpu")
    return DeviceFacts(uuid, identity, Staleness(driver=driver, cuda="13.0"), Provenance("NVIDIA H200"))


def option(plan: AnyPlan, time_s: float, stall_s: float | None = None, extra_s: float | None = None) -> Option:
    """With a stall, its extra time (twice the stall if not given) and a completion p99 of the transfer time."""
    if stall_s is None:
        return Option(plan, Predicted(time_s))
    return Option(plan, Predicted(time_s, stall_s, 2 * stall_s if extra_s is None else extra_s, time_s))


def one_way(*options: Option, **changes: object) -> Table:
    """One row of three columns: below 4 KiB, below 1 MiB, and above; every cell has the same options."""
    values: dict[str, object] = {
        "direction": Direction.H2D,
        "colocation": Colocation.IDLE,
        "runtime": Runtime.FULL,
        "range_edges": (1,),
        "size_edges": (1, 4096, 1 << 20),
        "cells": (options or (option(NARROW, 1e-3),),) * 3,
        "measured_ranges": (1, 16384),
        "measured_sizes": (1024, 1 << 21),
        "measured_bytes": (4096, 64 << 20),
        "margin": 0.02,
    }
    return Table(**(values | changes))  # type: ignore[arg-type]


def profile(*tables: Table, device: DeviceFacts | None = None, profile_id: str = "abc123") -> StoredProfile:
    policy = CompiledPolicy(tables or (one_way(),))
    return StoredProfile(profile_id, device or facts(), ProfileState.PUBLISHED, CREATED, "kernels", policy)


def rounded(value: float) -> float:
    return float(f"{value:.6g}")


copy_plans = st.one_of(
    st.builds(
        CopyPlan,
        st.sampled_from([Backend.DIRECT, Backend.PITCHED]),
        chunk_bytes=st.none() | st.integers(1, 1 << 40),
        stream_priority=st.integers(-5, 0),
        completion=st.sampled_from(Completion),
    ),
    st.builds(
        CopyPlan,
        st.just(Backend.BATCH),
        chunk_bytes=st.none() | st.integers(1, 1 << 40),
        prefer_overlap=st.booleans(),
    ),
    st.builds(
        CopyPlan,
        st.sampled_from([Backend.KERNEL, Backend.STAGED]),
        st.sampled_from(Variant),
        st.integers(1, 32).map(lambda warps: 32 * warps),
        st.builds(KernelOptions, st.integers(1, 65_535), st.none() | st.integers(1, 1 << 20)),
        sm_partition=st.none() | st.integers(1, 132),
    ),
)
pairs = st.builds(PlanPair, copy_plans, copy_plans, st.booleans())
times_s = st.floats(1e-7, 1.0).map(rounded)
costs_s = st.floats(0.0, 1.0).map(rounded)
served = st.builds(Predicted, times_s, costs_s, costs_s, times_s)
unserved = st.builds(Predicted, times_s)
predictions = st.one_of(served, unserved)


def cells_of(plans: st.SearchStrategy[AnyPlan]) -> st.SearchStrategy[tuple[Option, ...]]:
    return st.lists(st.builds(Option, plans, predictions, st.booleans()), min_size=1, max_size=MAX_OPTIONS).map(tuple)


edges = st.sets(st.integers(2, 1 << 40), max_size=4).map(lambda values: (1, *sorted(values)))
intervals = st.tuples(st.integers(1, 1 << 40), st.integers(1, 1 << 40)).map(lambda pair: tuple(sorted(pair)))


@st.composite
def tables(
    draw: st.DrawFn, direction: Direction, colocation: Colocation, runtime: Runtime, hint: Hint = Hint.NONE
) -> Table:
    rows, columns = draw(edges), draw(edges)
    count = len(rows) * len(columns)
    cells = cells_of(pairs if direction is Direction.BOTH else copy_plans)
    sources = tuple(draw(st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=3)))
    blocks = st.lists(st.integers(0, max(0, len(sources) - 1)), min_size=count, max_size=count)
    return Table(
        direction=direction,
        colocation=colocation,
        runtime=runtime,
        range_edges=rows,
        size_edges=columns,
        cells=tuple(draw(st.lists(cells, min_size=count, max_size=count))),
        measured_ranges=draw(intervals),
        measured_sizes=draw(intervals),
        measured_bytes=draw(intervals),
        margin=draw(costs_s),
        step_s=draw(st.none() | times_s),
        hint=hint,
        sources=sources,
        evidence=tuple(draw(blocks)) if sources else (),
    )


@st.composite
def policies(draw: st.DrawFn) -> CompiledPolicy:
    kinds = st.sampled_from([*((runtime, Hint.NONE) for runtime in Runtime), *((Runtime.FULL, hint) for hint in Hint)])
    keys = st.tuples(st.sampled_from(Direction), st.sampled_from(Colocation), kinds).map(lambda k: (*k[:2], *k[2]))
    return CompiledPolicy(tuple(draw(tables(*key)) for key in draw(st.lists(keys, unique=True, max_size=3))))
