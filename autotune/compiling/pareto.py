"""Which plans of a table cell are worth keeping: no other is both as fast and as gentle."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.compiling.laws import Array
from pega_tune.profiles.policy.table import MAX_OPTIONS


@dataclass(frozen=True, slots=True, eq=False)
class Offers:
    """P plans at one shape, (P,) each.

    A plan is lighter than another if it keeps fewer threads on the SMs at this shape, or as many and has the simpler
    backend: of the backends that keep no threads `direct` is the lightest, as what a batched copy does on the device is
    the driver's secret.

    Attributes:
        times_s: transfer times in seconds.
        threads: threads that they keep on the SMs at this shape.
        backends: how far each is from the simplest backend.
        ranks: places in the order of simplicity, all different.
    """

    times_s: Array
    threads: NDArray[np.int64]
    backends: NDArray[np.int64]
    ranks: NDArray[np.int64]

    def lighter(self, than: int) -> NDArray[np.bool_]:
        """Which plans are lighter than one of them."""
        fewer, as_many = self.threads < self.threads[than], self.threads == self.threads[than]
        lighter: NDArray[np.bool_] = fewer | (as_many & (self.backends < self.backends[than]))
        return lighter

    def gentlest(self, among: NDArray[np.bool_], margin: float) -> int:
        """Of these, the gentlest one that is as fast as the fastest of them within the noise."""
        limit_s = self.times_s[among].min() * (1 + margin)
        equal = np.flatnonzero(among & (self.times_s <= limit_s))
        return int(equal[np.lexsort((self.ranks[equal], self.threads[equal]))[0]])


def pareto(offers: Offers, leader: int, margin: float) -> tuple[int, ...]:
    """At most `MAX_OPTIONS` of the plans, by ascending time.

    The fastest and the leader; then those lighter still and slower by more than the noise, each time the gentlest that
    is as fast as any of them, so that the lightest of all comes last. If that one is as fast as the fastest within
    the noise, it comes in place of these. The fastest stays even if it is no harder on the SMs, since a look-up
    measures the noise from it. If there are too many, the slower ones before the last go.

    Args:
        offers: at least one.
        leader: which of those equivalent to the fastest is to be taken.
        margin: relative difference of times that is noise.
    """
    fastest = int(np.argmin(offers.times_s))
    kept = list(dict.fromkeys((fastest, leader)))
    slower = offers.times_s > offers.times_s[fastest] * (1 + margin)
    lightest = int(np.lexsort((offers.ranks, offers.backends, offers.threads))[0])
    if not slower[lightest]:
        kept += [lightest] if offers.lighter(leader)[lightest] else []
        return tuple(sorted(kept, key=lambda index: float(offers.times_s[index])))
    while np.any(rest := slower & offers.lighter(kept[-1])):
        kept.append(offers.gentlest(rest, margin))
    return tuple(kept if len(kept) <= MAX_OPTIONS else [*kept[: MAX_OPTIONS - 1], kept[-1]])
