"""Which plans of a table cell are worth keeping: no other is both as fast and as gentle."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.compiling.laws import Array
from pega_tune.profiles.policy.choose import DEFAULT_PERIOD_S
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

    def lightest(self, among: NDArray[np.bool_]) -> int:
        """The lightest of these; of several, the simplest."""
        places = np.flatnonzero(among)
        return int(places[np.lexsort((self.ranks[places], self.backends[places], self.threads[places]))[0]])

    def gentlest(self, among: NDArray[np.bool_], margin: float) -> int:
        """Of these, the gentlest one that is as fast as the fastest of them within the noise."""
        limit_s = self.times_s[among].min() * (1 + margin)
        equal = np.flatnonzero(among & (self.times_s <= limit_s))
        return int(equal[np.lexsort((self.ranks[equal], self.threads[equal]))[0]])


def pareto(offers: Offers, leader: int, margin: float) -> tuple[int, ...]:
    """At most `MAX_OPTIONS` of the plans, by ascending time.

    The fastest and the leader; then those lighter still and slower by more than the noise, each time the gentlest that
    is as fast as any of them, up to the lightest that completes within the reference period, and on to the lightest of
    all. If such a lightest one is as fast as the fastest within the noise, it comes in place of those before it. The
    fastest stays even if it is no harder on the SMs, since a look-up measures the noise from it. If there are too many,
    the slower ones before these two go.

    Args:
        offers: at least one.
        leader: which of those equivalent to the fastest is to be taken.
        margin: relative difference of times that is noise.
    """
    kept = list(dict.fromkeys((int(np.argmin(offers.times_s)), leader)))
    lightest = []
    for among in (offers.times_s < DEFAULT_PERIOD_S, np.ones_like(offers.times_s, dtype=np.bool_)):
        if among.any():
            kept += _lighter_still(offers, among, kept[-1], margin)
            lightest.append(kept[-1])
    before = [index for index in kept if index not in lightest]
    chosen = {*before[: MAX_OPTIONS - len(set(lightest))], *lightest}
    return tuple(sorted(chosen, key=lambda index: (float(offers.times_s[index]), kept.index(index))))


def _lighter_still(offers: Offers, among: NDArray[np.bool_], last: int, margin: float) -> Iterator[int]:
    """Of some plans those to keep after the last one, each lighter than the one before."""
    slower = offers.times_s > offers.times_s.min() * (1 + margin)
    lightest = offers.lightest(among)
    if not slower[lightest]:
        if offers.lighter(last)[lightest]:
            yield lightest
        return
    while np.any(rest := among & slower & offers.lighter(last)):
        last = offers.gentlest(rest, margin)
        yield last
