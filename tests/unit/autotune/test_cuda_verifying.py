from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from pega_tune.autotune.cuda.comparing import POISON, Comparer
from pega_tune.autotune.cuda.layout import Layout, equal_ranges, odd_ranges
from pega_tune.autotune.cuda.verifying import Leg, Verifier
from pega_tune.kernels.shape import Direction, TransferShape

Defect = Callable[[NDArray[np.uint8], Layout], None]
MIB = 1 << 20


class FakeMemories:
    """A device whose memory is an array; `move` is a transfer without a fault."""

    def __init__(self, nbytes: int) -> None:
        self.host = np.zeros(nbytes, np.uint8)
        self.device = np.zeros(nbytes, np.uint8)

    def poison_device(self, value: int, nbytes: int) -> None:
        self.device[:nbytes] = value

    def upload(self, data: NDArray[np.uint8]) -> None:
        self.device[: len(data)] = data

    def download(self, data: NDArray[np.uint8]) -> None:
        data[:] = self.device[: len(data)]

    def move(self, direction: Direction, layout: Layout) -> None:
        for here, there, size in zip(
            layout.host_offsets.tolist(), layout.device_offsets.tolist(), layout.nbytes.tolist(), strict=True
        ):
            if direction is Direction.H2D:
                self.device[there : there + size] = self.host[here : here + size]
            else:
                self.host[here : here + size] = self.device[there : there + size]

    def destination(self, direction: Direction) -> NDArray[np.uint8]:
        return self.device if direction is Direction.H2D else self.host


def _verify(
    directions: tuple[Direction, ...], layout: Layout, defects: dict[Direction, Defect] | None = None, seed: int = 3
) -> str:
    legs = [Leg(direction, FakeMemories(layout.extent_bytes + 64), layout) for direction in directions]
    mirror = np.zeros(layout.extent_bytes + 128, np.uint8)

    def run() -> None:
        for leg in legs:
            leg.memories.move(leg.direction, layout)  # type: ignore[attr-defined]
            defect = (defects or {}).get(leg.direction)
            if defect:
                defect(leg.memories.destination(leg.direction), layout)  # type: ignore[attr-defined]

    with Comparer(2) as comparer:
        return Verifier(comparer, POISON).verify(legs, mirror, seed, run)


LAYOUTS = [equal_ranges(TransferShape(50, 50 * 33 + 7), 1), odd_ranges(1)]
WAYS = [(Direction.H2D,), (Direction.D2H,), Direction.BOTH.legs]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("directions", WAYS)
def test_a_right_transfer(directions: tuple[Direction, ...], layout: Layout) -> None:
    assert _verify(directions, layout) == ""


def _offset(layout: Layout, slab: NDArray[np.uint8], direction: Direction) -> int:
    offsets = layout.device_offsets if direction is Direction.H2D else layout.host_offsets
    return int(offsets[17])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wrong", list(Direction.BOTH.legs))
@pytest.mark.parametrize("directions", WAYS)
def test_a_flipped_byte_is_reported_with_its_direction(
    directions: tuple[Direction, ...], wrong: Direction, layout: Layout
) -> None:
    def flip(slab: NDArray[np.uint8], layout: Layout) -> None:
        slab[_offset(layout, slab, wrong)] ^= 1

    verdict = _verify(directions, layout, {wrong: flip})
    assert verdict.startswith(f"{wrong}: range 17 ") if wrong in directions else verdict == ""


@pytest.mark.parametrize("wrong", list(Direction.BOTH.legs))
@pytest.mark.parametrize("value", [0, 0x7F, 0x80])
def test_a_byte_written_outside_the_ranges_is_reported(wrong: Direction, value: int) -> None:
    layout = odd_ranges(1)

    def trespass(slab: NDArray[np.uint8], layout: Layout) -> None:
        slab[_offset(layout, slab, wrong) - 1] = value

    assert "a byte outside the ranges" in _verify(Direction.BOTH.legs, layout, {wrong: trespass})


@pytest.mark.parametrize("wrong", list(Direction.BOTH.legs))
def test_a_transfer_that_does_nothing_is_reported(wrong: Direction) -> None:
    layout = LAYOUTS[0]
    legs = [Leg(wrong, FakeMemories(layout.extent_bytes), layout)]
    with Comparer(1) as comparer:
        verifier = Verifier(comparer, POISON)
        assert verifier.verify(legs, np.zeros(layout.extent_bytes, np.uint8), 1, lambda: None)


def test_what_the_last_verification_left_does_not_help() -> None:
    layout = LAYOUTS[0]
    memories = FakeMemories(layout.extent_bytes)
    legs = [Leg(Direction.D2H, memories, layout)]
    mirror = np.zeros(layout.extent_bytes, np.uint8)
    with Comparer(1) as comparer:
        verifier = Verifier(comparer, POISON)
        assert verifier.verify(legs, mirror, 1, lambda: memories.move(Direction.D2H, layout)) == ""
        right = memories.host.copy()

        def replay() -> None:
            memories.host[:] = right

        assert verifier.verify(legs, mirror, 2, replay) != ""
