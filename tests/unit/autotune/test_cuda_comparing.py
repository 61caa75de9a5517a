from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from pega_tune.autotune.cuda.comparing import POISON, Comparer
from pega_tune.autotune.cuda.layout import GUARD_BYTES, Layout, equal_ranges, odd_ranges
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.kernels.shape import TransferShape

Bytes = NDArray[np.uint8]


@pytest.fixture(params=[1, 3])
def comparer(request: pytest.FixtureRequest) -> Iterator[Comparer]:
    with Comparer(request.param) as made:
        yield made


def _moved(comparer: Comparer, layout: Layout) -> tuple[Bytes, Bytes]:
    """A host slab, and a device slab after a right transfer from it."""
    host, device = (np.zeros(layout.extent_bytes, np.uint8) for _ in range(2))
    comparer.fill(host, 5)
    comparer.poison(device)
    for i in range(len(layout.nbytes)):
        here, there, size = int(layout.host_offsets[i]), int(layout.device_offsets[i]), int(layout.nbytes[i])
        device[there : there + size] = host[here : here + size]
    return host, device


def test_data_is_fresh_and_never_looks_like_poison(comparer: Comparer) -> None:
    first, second = (np.zeros(1 << 16, np.uint8) for _ in range(2))
    comparer.fill(first, 1)
    comparer.fill(second, 2)
    assert not (first & 0x80).any()
    assert POISON & 0x80
    assert abs(first.mean() - 63.5) < 1
    assert len(np.unique(first)) == 128
    assert (first != second).mean() > 0.98


def test_data_does_not_depend_on_the_number_of_threads() -> None:
    slabs = [np.zeros(8 * 1001, np.uint8) for _ in range(2)]
    for slab, threads in zip(slabs, (1, 5), strict=True):
        with Comparer(threads) as comparer:
            comparer.fill(slab, 9)
    assert (slabs[0] == slabs[1]).all()


@pytest.mark.parametrize("layout", [equal_ranges(TransferShape(100, 100 * 77), 1), odd_ranges(1)])
def test_a_right_transfer(comparer: Comparer, layout: Layout) -> None:
    host, device = _moved(comparer, layout)
    assert comparer.difference(host, device, layout) == ""
    assert comparer.trespass(device, layout.device_gaps()) == ""


@pytest.mark.parametrize("index", [0, 1, 57, 4000])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_one_wrong_byte_is_found_in_its_range(comparer: Comparer, index: int, place: float) -> None:
    layout = odd_ranges(1)
    host, device = _moved(comparer, layout)
    size = int(layout.nbytes[index])
    device[int(layout.device_offsets[index]) + round(place * (size - 1))] ^= 1
    assert comparer.difference(host, device, layout).startswith(f"range {index} of {size} bytes is wrong")


def test_the_first_of_several_wrong_ranges_is_named(comparer: Comparer) -> None:
    layout = odd_ranges(1)
    host, device = _moved(comparer, layout)
    for index in (4000, 30, 2500):
        device[int(layout.device_offsets[index])] ^= 1
    assert comparer.difference(host, device, layout).startswith("range 30 ")


def test_a_range_that_was_not_copied_is_found(comparer: Comparer) -> None:
    layout = odd_ranges(1)
    host, device = _moved(comparer, layout)
    index = int(np.argmin(layout.nbytes))
    assert layout.nbytes[index] == 1
    device[int(layout.device_offsets[index])] = POISON
    assert comparer.difference(host, device, layout)


def test_every_byte_between_the_ranges_is_watched(comparer: Comparer) -> None:
    layout = equal_ranges(TransferShape(9, 9 * 30 + 4), 2)
    _, device = _moved(comparer, layout)
    gaps = layout.device_gaps()
    inside = np.concatenate([np.arange(b, e) for b, e in zip(gaps.begins, gaps.ends, strict=True)]).astype(np.int64)
    for offset in (*inside[:3], *inside[GUARD_BYTES:-GUARD_BYTES], *inside[-3:]):
        kept, device[offset] = device[offset], 0
        assert comparer.trespass(device, gaps) == f"a byte outside the ranges was written, at offset {offset}"
        device[offset] = kept
    assert comparer.trespass(device, gaps) == ""


def test_the_first_of_several_bytes_between_the_ranges_is_named(comparer: Comparer) -> None:
    layout = equal_ranges(TransferShape(1000, 1000 * 64), 2, NamedLayout.parse("strided"))
    _, device = _moved(comparer, layout)
    gaps = layout.device_gaps()
    assert len(gaps.begins) == 1001
    for index in (900, 30, 500):
        device[int(gaps.begins[index]) + 5] = 0
    assert comparer.trespass(device, gaps).endswith(f"at offset {int(gaps.begins[30]) + 5}")
