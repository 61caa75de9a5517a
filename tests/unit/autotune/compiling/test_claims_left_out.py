"""What is claimed of the plans of a survey of a recorded H200 by all other surveys, against what was measured there."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from pega_tune.autotune.compiling.ceilings import Ceiling
from pega_tune.autotune.compiling.decode import DecodeFits, described, fit_decode
from pega_tune.autotune.compiling.latency import kind_of
from pega_tune.autotune.sweep.serving_policy import surveys
from pega_tune.profiles.policy.choose import DEFAULT_BUDGET
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockRecord
from tests.helpers.recordings import DATA, load

RECORDED: Final = tuple(DATA / "h200" / commit / "standard-mps.jsonl.gz" for commit in ("abf6711", "8a39189"))
"""Those with surveys of small transfers."""

BESIDE: Final = (Colocation.SAME_CONTEXT, Colocation.TIME_SLICED, Colocation.MPS)
MOST_MISSED: Final = 1.1
"""The same plan costs up to so much more in another block: 7.5 % of a step instead of 7.3, 9.8 instead of 9.3."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A stall, in fractions of a decode step.

    Attributes:
        claim: by the other surveys.
        cost: what was measured.
    """

    claim: float
    cost: float


def _claims(blocks: tuple[BlockRecord, ...], colocation: Colocation) -> Iterator[Claimed]:
    members = [survey for survey in surveys(blocks) if survey.colocation is colocation]
    for left in members:
        fits = fit_decode([survey for survey in members if survey is not left], blocks)
        for cost, burdens in described(left, blocks):
            claimed_s = fits.stall.at(cost.plan, burdens)[0]
            if kind_of(cost.plan) in fits.slowings and np.isfinite(claimed_s):
                yield Claimed(claimed_s / left.step_s, (cost.option.predicted.stall_s or 0.0) / left.step_s)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_claims_hold_where_nothing_was_measured(path: Path) -> None:
    blocks = tuple(load(path).blocks)
    found = [claimed for colocation in BESIDE for claimed in _claims(blocks, colocation)]
    within = [claimed for claimed in found if claimed.claim <= DEFAULT_BUDGET]
    assert len(found) >= 12
    assert len(within) >= 4
    assert all(claimed.cost <= MOST_MISSED * claimed.claim for claimed in found)
    assert all(claimed.cost <= DEFAULT_BUDGET for claimed in within)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("colocation", BESIDE)
def test_what_a_real_device_costs_makes_a_ceiling_in_every_colocation(path: Path, colocation: Colocation) -> None:
    blocks = tuple(load(path).blocks)
    fits = fit_decode([survey for survey in surveys(blocks) if survey.colocation is colocation], blocks)
    assert isinstance(fits, DecodeFits)
    assert isinstance(fits.stall.ceiling, Ceiling)
    assert fits.stall.ceiling.miss <= 2
