"""Batches with arithmetic progressions in them, between two buffers, and what they are made of."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from pega_tune.kernels.ranges import RangeBatch
from tests.helpers.batches import columns

_SIZES = st.sampled_from([1, 16, 24, 100])
_GAPS = st.sampled_from([0, 0, 8, 100])
_BORDER = st.sampled_from([False, False, True])


@dataclass(frozen=True)
class Placed:
    """A range by its offsets."""

    device: int
    host: int
    nbytes: int
    device_allocation: int
    host_allocation: int


@st.composite
def placed_ranges(draw: st.DrawFn, max_segments: int = 5) -> list[Placed]:
    """Ranges in segments: progressions, several at once in turn, up or down, or anything; neither side overlaps."""
    result: list[Placed] = []
    device = host = device_allocation = host_allocation = 0
    for _ in range(draw(st.integers(1, max_segments))):
        device_allocation, host_allocation = device_allocation + draw(_BORDER), host_allocation + draw(_BORDER)
        rows, period = draw(st.integers(1, 7)), draw(st.integers(1, 9))
        phases = []
        for _ in range(period):
            size = draw(_SIZES)
            device_pitch, host_pitch = size + draw(_GAPS), size + draw(_GAPS)
            places = [(device + row * device_pitch, host + row * host_pitch) for row in range(rows)]
            phases.append([Placed(*place, size, device_allocation, host_allocation) for place in places])
            device, host = device + rows * device_pitch + draw(_GAPS), host + rows * host_pitch + draw(_GAPS)
        segment = [phase[row] for row in range(rows) for phase in phases][: draw(st.integers(1, rows * period))]
        result += reversed(segment) if draw(st.booleans()) else segment
    return draw(st.permutations(result)) if draw(st.sampled_from([False, False, True])) else result


def span(ranges: list[Placed]) -> int:
    """Bytes that either side needs."""
    return max(max(r.device, r.host) + r.nbytes for r in ranges)


def batch_of(ranges: list[Placed], device: int, host: int) -> RangeBatch:
    """The ranges between buffers at two addresses."""
    return columns(
        [
            (device + r.device, host + r.host, host + r.host, r.nbytes, r.device_allocation, r.host_allocation)
            for r in ranges
        ]
    )


class Buffers:
    """Two buffers of random bytes, and what a batch should make of them."""

    def __init__(self, nbytes: int) -> None:
        random = np.random.default_rng(nbytes)
        self.device, self.host = (random.integers(0, 256, nbytes, dtype=np.uint8) for _ in range(2))

    def batch(self, ranges: list[Placed]) -> RangeBatch:
        return batch_of(ranges, self.device.ctypes.data, self.host.ctypes.data)

    def expected(self, ranges: list[Placed], to_device: bool) -> tuple[np.ndarray, np.ndarray]:
        """Device and host buffer after the copies."""
        device, host = self.device.copy(), self.host.copy()
        for r in ranges:
            on_device, on_host = slice(r.device, r.device + r.nbytes), slice(r.host, r.host + r.nbytes)
            if to_device:
                device[on_device] = self.host[on_host]
            else:
                host[on_host] = self.device[on_device]
        return device, host
