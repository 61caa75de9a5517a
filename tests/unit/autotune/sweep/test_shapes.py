import pytest

from pega_tune.autotune.sweep.presets import PRESETS, Preset, find_preset
from pega_tune.autotune.sweep.shapes import (
    DEVICE_OPTION,
    HOST_OPTION,
    Memory,
    Shortage,
    full_shapes,
    lattice_shapes,
    shortage,
)
from pega_tune.errors import DeviceError, UsageError
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.sweeps import MIB

PLENTY = Memory(1 << 36, 1 << 36)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_lattices_span_the_plane_in_each_direction(preset: Preset) -> None:
    shapes = lattice_shapes(preset, PLENTY)
    assert len(set(shapes)) == len(shapes)
    for direction in Direction:
        mine = [s for s in shapes if s.direction is direction]
        assert {s.merged_ranges for s in mine} >= {1, 16, 256, 4096, 65_536}
        assert min(s.average_range_bytes for s in mine) == 256
        assert max(s.average_range_bytes for s in mine) == 64 * MIB
        assert max(s.total_bytes for s in mine) == preset.max_total_bytes
        assert TransferShape(1, 64 * MIB, direction) in mine


def test_larger_presets_measure_more() -> None:
    counts = [len(lattice_shapes(preset, PLENTY)) for preset in PRESETS]
    assert counts == sorted(counts)
    assert find_preset("quick").max_total_bytes == 64 * MIB


def test_the_fragmented_cache_is_looked_at_in_full_in_each_direction() -> None:
    shapes = full_shapes(find_preset("quick"), PLENTY)
    assert shapes == tuple(TransferShape(16_384, 64 * MIB, d) for d in (Direction.H2D, Direction.D2H, Direction.BOTH))


def test_short_memory_leaves_smaller_shapes() -> None:
    memory = Memory(40 * MIB, 1 << 36)
    shapes = (*full_shapes(find_preset("quick"), memory), *lattice_shapes(find_preset("quick"), memory))
    assert shapes
    assert all(s.moved_bytes <= 40 * MIB for s in shapes)
    assert {s.direction for s in shapes} == set(Direction)


def test_what_memory_leaves_out_is_counted() -> None:
    preset = find_preset("quick")
    whole = {*full_shapes(preset, PLENTY), *lattice_shapes(preset, PLENTY)}
    assert shortage(preset, PLENTY) is None
    for memory, options in (
        (Memory(40 * MIB, 1 << 36), (DEVICE_OPTION,)),
        (Memory(1 << 36, 60 * MIB), (HOST_OPTION,)),
        (Memory(40 * MIB, 60 * MIB), (HOST_OPTION, DEVICE_OPTION)),
    ):
        fitting = {*full_shapes(preset, memory), *lattice_shapes(preset, memory)}
        found = shortage(preset, memory)
        assert isinstance(found, Shortage)
        assert (found.shapes, found.of) == (len(whole - fitting), len(whole))
        assert tuple(lack.option for lack in found.lacks) == options
        assert found.from_bytes == min(shape.total_bytes for shape in whole - fitting)
        needed = {lack.option: lack.needed_bytes for lack in found.lacks}
        assert shortage(preset, Memory(needed.get(DEVICE_OPTION, 1 << 36), needed.get(HOST_OPTION, 1 << 36))) is None


@pytest.mark.parametrize(
    ("memory", "words", "option"),
    [
        (Memory(MIB, 1 << 36), "device memory", "--max-device-memory"),
        (Memory(1 << 36, MIB), "pinned host memory", "--max-host-memory"),
    ],
)
def test_too_little_memory_names_which_and_the_option(memory: Memory, words: str, option: str) -> None:
    with pytest.raises(DeviceError, match=words) as refusal:
        full_shapes(find_preset("quick"), memory)
    assert option in refusal.value.hint


def test_unknown_preset_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match="no preset 'fast'") as refusal:
        find_preset("fast")
    assert all(preset.name in refusal.value.hint for preset in PRESETS)
