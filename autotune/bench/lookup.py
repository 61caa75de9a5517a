"""How long look-ups take in this process, beside one in a dictionary."""

import gc
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter

import numpy as np

from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.compiled import decode, encode
from pega_tune.profiles.policy.stored import StoredProfile

SHAPES = 1000
MANY = 100_000
ROUNDS = 101
LOADS = 7
_OCTAVES = (16, 14)  # of ranges from 1 and of sizes from 256 bytes
_SMALLEST_BYTES = 256
_MOST_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class LookupRow:
    """One way of looking up.

    Attributes:
        name: unique.
        median_s: median over the rounds of the mean in one, in seconds for each shape (or for a whole profile).
        rounds: how many there were.
        note: what one of it is.
        is_lookup: whether it is a look-up of one shape, to be compared with other look-ups.
    """

    name: str
    median_s: float
    rounds: int
    note: str
    is_lookup: bool = True


@dataclass(frozen=True, slots=True)
class LookupShapes:
    """What is asked about: log-uniform, and the same for the same seed.

    Attributes:
        seed: of the random numbers.
        counts: ranges and bytes of each shape.
    """

    seed: int = 0
    counts: tuple[tuple[int, int], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", tuple(self._drawn(random.Random(self.seed), SHAPES)))

    @staticmethod
    def _drawn(rng: random.Random, count: int) -> Iterator[tuple[int, int]]:
        while count:
            ranges = int(2 ** rng.uniform(0, _OCTAVES[0]))
            total_bytes = ranges * int(_SMALLEST_BYTES * 2 ** rng.uniform(0, _OCTAVES[1]))
            if total_bytes <= _MOST_BYTES:
                count -= 1
                yield ranges, total_bytes


def measure(auto: Auto, shapes: LookupShapes) -> tuple[LookupRow, ...]:
    """Times every way, warm: a round before the first is not counted."""
    rows = [
        _row("dict", _in_a_dictionary(shapes), "a look-up of ranges and bytes in a dictionary of them"),
        _row("decide", _by_default(auto, shapes), "a decision, defaults for all but the shape"),
        _row("decide-keywords", _with_keywords(auto, shapes), "a decision, every keyword given"),
        _row("decide-many", _many(auto, shapes), f"a decision of {MANY:,} in one call", MANY),
    ]
    if auto.profile is not None:
        load = _loading(auto, auto.profile)
        row = _row("load", load, "a profile made ready from its stored form", 1, LOADS)
        rows.append(replace(row, is_lookup=False))
    return tuple(rows)


def _row(name: str, run: Callable[[], object], note: str, count: int = SHAPES, rounds: int = ROUNDS) -> LookupRow:
    run()
    collects = gc.isenabled()
    gc.disable()
    try:
        times_s = [_timed(run) for _ in range(rounds)]
    finally:
        if collects:
            gc.enable()
    return LookupRow(name, median(times_s) / count, rounds, note)


def _timed(run: Callable[[], object]) -> float:
    start_s = perf_counter()
    run()
    return perf_counter() - start_s


def _in_a_dictionary(shapes: LookupShapes) -> Callable[[], object]:
    counts, known = shapes.counts, dict.fromkeys(shapes.counts, True)

    def run() -> None:
        for ranges, total_bytes in counts:
            known[ranges, total_bytes]

    return run


def _by_default(auto: Auto, shapes: LookupShapes) -> Callable[[], object]:
    counts, decide = shapes.counts, auto.decide

    def run() -> None:
        for ranges, total_bytes in counts:
            decide(ranges, total_bytes)

    return run


def _with_keywords(auto: Auto, shapes: LookupShapes) -> Callable[[], object]:
    counts, decide = shapes.counts, auto.decide

    def run() -> None:
        for ranges, total_bytes in counts:
            decide(
                ranges,
                total_bytes,
                "h2d",
                objective="tail-bounded",
                budget=0.2,
                period_s=0.1,
                step_s=0.004,
                colocation="idle",
                runtime="full",
                host_runs=ranges,
                alignment=16,
                pitch=total_bytes,
            )

    return run


def _many(auto: Auto, shapes: LookupShapes) -> Callable[[], object]:
    repeats = -(-MANY // SHAPES)
    ranges, totals = np.array(shapes.counts * repeats)[:MANY].T.copy()
    order = np.random.default_rng(shapes.seed).permutation(MANY)
    ranges, totals = ranges[order], totals[order]
    return lambda: auto.decide_many(ranges, totals)


def _loading(auto: Auto, profile: StoredProfile) -> Callable[[], object]:
    blob = encode(profile.policy)
    return lambda: Auto.from_profile(replace(profile, policy=decode(blob)), auto.tier)
