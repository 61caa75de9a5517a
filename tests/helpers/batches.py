"""Batches of ranges for tests."""

import numpy as np
from hypothesis import strategies as st

from pega_tune.kernels.ranges import RangeBatch

# few sizes and gaps, so that neighbours often touch on one side, on both, or across an allocation border
_SIZES = st.sampled_from([1, 3, 16, 4096, 4097])
_GAPS = st.sampled_from([0, 0, 0, 1, 4096])
_BORDER = st.sampled_from([False, False, False, True])


def columns(rows: list[tuple[int, ...]]) -> RangeBatch:
    """A batch from rows (device, host, host_alias, nbytes, device_allocation, host_allocation)."""
    device, host, host_alias, nbytes, device_allocation, host_allocation = zip(*rows, strict=True)
    addresses = (np.array(column, np.uint64) for column in (device, host, host_alias, nbytes))
    ids = (np.array(column, np.int64) for column in (device_allocation, host_allocation))
    return RangeBatch(*addresses, *ids)


@st.composite
def batches(draw: st.DrawFn, max_ranges: int = 40) -> RangeBatch:
    """Ranges laid out one after another on both sides, with gaps and allocation borders, then often shuffled."""
    device, host = draw(st.sampled_from([(0, 0), (2**63, 2**47), (2**64 - 2**24, 2**64 - 2**25)]))
    alias = draw(st.sampled_from([0, 2**20]))
    device_allocation = host_allocation = 0
    rows = []
    for _ in range(draw(st.integers(1, max_ranges))):
        device, host = device + draw(_GAPS), host + draw(_GAPS)
        device_allocation, host_allocation = device_allocation + draw(_BORDER), host_allocation + draw(_BORDER)
        size = draw(_SIZES)
        rows.append((device, host, host + alias, size, device_allocation, host_allocation))
        device, host = device + size, host + size
    return columns(draw(st.one_of(st.just(rows), st.permutations(rows))))


def rows_of(batch: RangeBatch) -> list[tuple[int, ...]]:
    """The inverse of `columns`."""
    fields = (batch.device, batch.host, batch.host_alias, batch.nbytes, batch.device_allocation, batch.host_allocation)
    return list(zip(*(field.tolist() for field in fields), strict=True))


def merged_rows(batch: RangeBatch, *, keep_order: bool = False) -> list[tuple[int, int, int, int]]:
    """Merging, slowly: (device, host, host_alias, nbytes), ascending by host address or in the order given."""
    rows = rows_of(batch) if keep_order else sorted(rows_of(batch), key=lambda row: row[1])
    merged: list[list[int]] = []
    allocations: tuple[int, int] | None = None
    for device, host, alias, nbytes, *ids in rows:
        if merged and allocations == tuple(ids):
            last = merged[-1]
            if [device, host, alias] == [start + last[3] for start in last[:3]]:
                last[3] += nbytes
                continue
        merged.append([device, host, alias, nbytes])
        allocations = (ids[0], ids[1])
    return [(device, host, alias, nbytes) for device, host, alias, nbytes in merged]
