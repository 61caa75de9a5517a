"""Sums of what a thread loads: many loads in flight, then one total. Built from accesses, like `copy_kernels`."""

from typing import Any

from pega_tune.kernels.copy_kernels import UNROLL, Jit
from pega_tune.kernels.ptx import Access
from pega_tune.kernels.recipe import DeviceFunction


def build_sum(data: Access, jit: Jit) -> DeviceFunction:
    """Loads of 16 bytes, summed.

    Args:
        data: accesses of 16 bytes whose values are pairs of int64.
        jit: makes a device function.

    Returns:
        `sum_units(address, count, rank, threads) -> int64`: the sum of both words of the units of 16 bytes that fall to
        a thread, of `count` in all that `threads` threads share: passes of `UNROLL` loads in flight, and a last one of
        at most `UNROLL`, free of branches.
    """
    full_pass, last_pass = _full_pass(data, jit), _last_pass(data, jit)

    @jit
    def sum_units(address: int, count: int, rank: int, threads: int) -> int:
        step = threads * 16
        place = address + rank * 16
        total = 0
        while count >= UNROLL * threads:
            total += full_pass(place, step)
            place += UNROLL * step
            count -= UNROLL * threads
        if count > 0:
            total += last_pass(place, step, (count - rank) * 16)
        return total

    return sum_units


def _full_pass(data: Access, jit: Jit) -> DeviceFunction:
    """The sum of `UNROLL` units, `step` bytes apart; written out like the passes of `copy_kernels`."""
    load = data.load

    @jit
    def full_pass(place: int, step: int) -> int:
        v0 = load(place)
        v1 = load(place + step)
        v2 = load(place + 2 * step)
        v3 = load(place + 3 * step)
        v4 = load(place + 4 * step)
        v5 = load(place + 5 * step)
        v6 = load(place + 6 * step)
        v7 = load(place + 7 * step)
        low: int = v0[0] + v1[0] + v2[0] + v3[0] + v4[0] + v5[0] + v6[0] + v7[0]
        high: int = v0[1] + v1[1] + v2[1] + v3[1] + v4[1] + v5[1] + v6[1] + v7[1]
        return low + high

    return full_pass


def _last_pass(data: Access, jit: Jit) -> DeviceFunction:
    """The sum of those of `UNROLL` units that begin less than `left` bytes from the first."""
    load_if = data.load_if

    @jit
    def kept(value: Any, wanted: bool) -> int:
        both: int = value[0] + value[1]
        return both * wanted

    @jit
    def last_pass(place: int, step: int, left: int) -> int:
        v0 = load_if(place, left > 0)
        v1 = load_if(place + step, left > step)
        v2 = load_if(place + 2 * step, left > 2 * step)
        v3 = load_if(place + 3 * step, left > 3 * step)
        v4 = load_if(place + 4 * step, left > 4 * step)
        v5 = load_if(place + 5 * step, left > 5 * step)
        v6 = load_if(place + 6 * step, left > 6 * step)
        v7 = load_if(place + 7 * step, left > 7 * step)
        low: int = kept(v0, left > 0) + kept(v1, left > step) + kept(v2, left > 2 * step) + kept(v3, left > 3 * step)
        high: int = kept(v4, left > 4 * step) + kept(v5, left > 5 * step) + kept(v6, left > 6 * step)
        last: int = kept(v7, left > 7 * step)
        return low + high + last

    return last_pass
