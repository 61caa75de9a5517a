"""By what processes of a recorded H200 differ, and how often the canary errs where they do.

    python -m tests.bench.canary spread
    python -m tests.bench.canary errors --runs N --seed N [--budget SECONDS] [--stored PROCESSES]

`spread`: for each pair of recordings, each kind of plan and two sizes, the change that all shapes have in common (their
median) and what is left of each (standard deviation, and median deviation in units of it), as logarithms; then, of the
finalists beside decode, by how much the median completion differs between fresh processes of one sweep, likewise.

`errors`: of so many canaries on a device that has not changed, and of as many with the stored times of a kind of plan
1.15 times longer, how many end with each verdict; see `tests.helpers.canary_world`.
"""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain, combinations
from math import log
from random import Random
from statistics import median, pstdev, stdev

from pega_tune.autotune.sweep.keys import is_final, survey_key
from pega_tune.profiles.store.records import Metric
from tests.helpers.canary_world import SWEEPS, Case, canary, chosen_kinds, pairs
from tests.helpers.recordings import load

SPARES = (0.0, 0.02, 0.04)
FACTOR = 1.15


def spread() -> Iterator[str]:
    """A line for each pair, kind and size."""
    names = [path.parent.name for path in SWEEPS]
    for (first, second), pair in zip(combinations(names, 2), pairs(), strict=True):
        found: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
        for deviation in pair:
            for what, change in deviation.changes.items():
                found[what, deviation.is_large].append(change)
        for (what, large), changes in sorted(found.items()):
            common = median(changes)
            rest = [change - common for change in changes]
            size = "from" if large else "below"
            sigma = 1.4826 * median(map(abs, rest))
            yield (
                f"{first} to {second}, {what}, {size} 4 MiB: {len(changes)} shapes, common {common:+.3f}, "
                f"each {pstdev(rest):.3f} ({sigma:.3f}), farthest {max(changes, key=abs):+.3f}"
            )


def beside_decode() -> Iterator[str]:
    """A line for each sweep, survey and plan."""
    for path in SWEEPS:
        medians: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for block in load(path).blocks:
            for cell in block.cells if is_final(block.key) else ():
                taken = next((m.samples for m in cell.measurements if m.metric is Metric.COMPLETION), ())
                if taken:
                    medians[survey_key(block.key), cell.plan.key].append(log(median(taken)))
        for (survey, plan), logs in sorted(medians.items()):
            if len(logs) > 2:
                yield f"{path.parent.name}, {survey}, {plan}: {len(logs)} processes, {stdev(logs):.3f}"


def errors(options: argparse.Namespace) -> Iterator[str]:
    """A line for each thing that may have changed and each spare spread."""
    for spare in SPARES:
        for kind in ("", *chosen_kinds()):
            case = Case(spare, kind, FACTOR if kind else 1.0, budget_s=options.budget, stored=options.stored)
            random = Random(f"{options.seed}/{kind}/{spare}")
            found = Counter(str(canary(random, case).verdict) for _ in range(options.runs))
            shares = ", ".join(f"{verdict} {count / options.runs:.1%}" for verdict, count in found.most_common())
            yield f"{kind or 'nothing'} changed, {spare:.0%} more spread: {shares}"


def main() -> None:
    """Prints what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("spread", "errors"))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=8.0, help="of a canary, seconds")
    parser.add_argument("--stored", type=int, default=2, help="processes that the profile was measured in")
    options = parser.parse_args()
    lines = chain(spread(), beside_decode()) if options.what == "spread" else errors(options)
    for line in lines:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
