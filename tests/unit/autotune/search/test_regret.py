"""How close a search comes to the table of all plans, and how far above chance that is.

It runs over every recording of a device that there is: an exhaustive one whole, of another one the blocks where every
axis was looked at; and over an exhaustive one of a simulated H200.
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import pytest

from pega_tune.autotune.replay.codec import decode, encode
from pega_tune.autotune.replay.engine import ReplayEngine
from pega_tune.autotune.replay.recording import Recording
from pega_tune.autotune.search.search import SearchLimits, Step
from pega_tune.autotune.sweep.planner import plan_sweep
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import SweepRecord, SweepState
from tests.helpers.recordings import RECORDINGS, load
from tests.helpers.search import Oracle, search_through
from tests.helpers.sweeps import sim_engine

SHARE = 0.15
SEEDS = range(3)
DRAWS = range(40)
WIDE = 60  # cells of a block in which every axis was looked at

# A search learns from one place about the others: of the three places at which a sweep that is no exhaustive one now
# measures all of its 129 plans, it knows no more than chance.
FEWEST_PLACES = 5


def _simulated() -> Recording:
    """What an exhaustive sweep of a simulated H200 records; the same every time."""
    engine = sim_engine()
    request = SweepRequest("thorough", exhaustive=True, seed=1)
    capabilities = engine.capabilities()
    blocks = tuple(task.measure(engine, {}) for task in plan_sweep(request, capabilities).blocks)
    sweep = SweepRecord(
        sweep_id="simulated",
        device=engine.facts,
        preset=request.preset,
        seed=request.seed,
        request=request.capped(capabilities.device_bytes, capabilities.host_bytes).to_json(),
        method_version=1,
        kernel_digest="",
        environment="{}",
        planned_blocks=len(blocks),
        state=SweepState.FINISHED,
        started_at=datetime(2026, 11, 30, tzinfo=UTC),
    )
    return decode(encode(Recording(sweep, blocks, "", "")))


def _is_exhaustive(recording: Recording) -> bool:
    return SweepRequest.from_json(recording.sweep.request).exhaustive


def _is_searchable(path: Path) -> bool:
    wide = [block for block in load(path).blocks if block.colocation is Colocation.IDLE and len(block.cells) >= WIDE]
    return len(wide) >= FEWEST_PLACES


@pytest.fixture(
    scope="module",
    params=[None, *filter(_is_searchable, RECORDINGS)],
    ids=lambda path: f"{path.parent.name}/{path.name}" if path else "sim:h200",
)
def recording(request: pytest.FixtureRequest) -> Recording:
    return _simulated() if request.param is None else load(request.param)


@pytest.fixture(scope="module")
def oracle(recording: Recording) -> Oracle:
    least = 1 if _is_exhaustive(recording) else WIDE
    idle = [block for block in recording.blocks if block.colocation is Colocation.IDLE]
    return Oracle.of([block for block in idle if len(block.cells) >= least])


@pytest.fixture(scope="module")
def found(recording: Recording, oracle: Oracle) -> list[float]:
    """Regret of the searches of several seeds."""
    regrets = []
    for seed in SEEDS:
        search, measured = search_through(ReplayEngine(recording), oracle, SearchLimits(share=SHARE), seed)
        assert measured <= SHARE * oracle.cells
        chosen = {site: best.plan for site in oracle.first if (best := search.best(site))}
        assert chosen.keys() == oracle.first.keys()
        regrets.append(oracle.regret(chosen))
    return regrets


@pytest.fixture(scope="module")
def drawn(oracle: Oracle) -> float:
    """Regret of as large a part drawn at random, the mean of many draws."""
    return fmean(oracle.regret(oracle.drawn(SHARE, seed)) for seed in DRAWS)


def test_the_recording_holds_what_is_searched(recording: Recording, oracle: Oracle) -> None:
    if not _is_exhaustive(recording):
        assert oracle.cells > 500
        return
    request = SweepRequest.from_json(recording.sweep.request)
    planned = plan_sweep(request, ReplayEngine(recording).capabilities()).blocks
    assert {task.key for task in planned} == {block.key for block in recording.blocks}
    assert oracle.cells > 5000


def test_a_search_stays_within_2_points_of_the_table_of_all_plans(oracle: Oracle, found: list[float]) -> None:
    floor = oracle.regret(oracle.best())
    assert max(found) <= floor + 0.02


def test_a_search_has_at_most_half_the_regret_of_as_many_plans_drawn_at_random(
    found: list[float], drawn: float
) -> None:
    assert max(found) <= drawn / 2


def test_the_coarse_pass_alone_would_fail(
    recording: Recording, oracle: Oracle, found: list[float], drawn: float
) -> None:
    search, _ = search_through(ReplayEngine(recording), oracle, SearchLimits(share=SHARE), 0, [Step.COARSE])
    chosen = {site: best.plan for site in oracle.first if (best := search.best(site))}
    regret = oracle.regret(chosen)
    assert regret > min(oracle.regret(oracle.best()) + 0.02, drawn / 2)
    assert regret > 1.25 * max(found)


def test_a_site_that_nobody_measured_is_refused(recording: Recording, oracle: Oracle) -> None:
    first = next(iter(oracle.first))
    without = replace(recording, blocks=tuple(block for block in recording.blocks if block.key != first.key))
    with pytest.raises(Exception, match="is not in the recording"):
        search_through(ReplayEngine(without), oracle, SearchLimits(share=SHARE), 0)
