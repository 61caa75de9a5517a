"""The recordings among the test data, and blocks that ask for what a recorded one holds."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from pega_tune.autotune.engine import Candidate, CandidateKind, Engine, SamplingLimits, TransferBlock
from pega_tune.autotune.replay.codec import decode
from pega_tune.autotune.replay.recording import Recording
from pega_tune.autotune.serving import DecodeSpec, ServingBlock, ServingLimits
from pega_tune.autotune.sweep.keys import is_final, layout_of, survey_key
from pega_tune.autotune.sweep.recording import Measured, MeasuredServing, block_record, serving_record
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockRecord

DATA = Path(__file__).resolve().parents[1] / "data"
RECORDINGS = tuple(sorted(DATA.rglob("*.jsonl.gz")))
STANDARD = DATA / "h200" / "d0a594f" / "standard.jsonl.gz"

# Of the presets at that commit.
LIMITS = SamplingLimits(budget_s=0.2)
SURVEY_ROUNDS, FINAL_ROUNDS = 3, 2


@cache
def load(path: Path = STANDARD) -> Recording:
    """A recording, read once."""
    return decode(path.read_bytes())


def transfer_block(record: BlockRecord) -> TransferBlock:
    """What was measured without decode, as it was asked for."""
    return TransferBlock(
        key=record.key,
        shape=_plain(record.shape),
        candidates=_candidates(record),
        limits=LIMITS,
        seed=record.seed,
        layout=layout_of(record.key),
    )


def serving_block(record: BlockRecord) -> ServingBlock:
    """What was measured beside decode, as it was asked for."""
    source, _, model = (record.decode or "").partition(" ")
    rounds = FINAL_ROUNDS if is_final(record.key) else SURVEY_ROUNDS
    return ServingBlock(
        key=record.key,
        shape=_plain(record.shape),
        candidates=_candidates(record),
        colocation=record.colocation,
        limits=ServingLimits(0.0, rounds, rounds),
        seed=record.seed,
        decode=DecodeSpec(source, model),
        layout=layout_of(survey_key(record.key)),
    )


def measured(record: BlockRecord, engine: Engine) -> BlockRecord:
    """The block as an engine measures it anew, but for its wall time."""
    link = engine.facts.identity.max_link
    if record.colocation is Colocation.IDLE:
        idle = transfer_block(record)
        again = block_record(Measured(idle, tuple(engine.transfer(idle)), engine.conditions()), link)
    else:
        beside = serving_block(record)
        taken = tuple(engine.beside_decode(beside))
        again = serving_record(MeasuredServing(beside, taken, engine.conditions()), link)
    return replace(again, seconds=record.seconds)


def _candidates(record: BlockRecord) -> tuple[Candidate, ...]:
    return tuple(Candidate(cell.name, CandidateKind(cell.kind), cell.plan) for cell in record.cells)


def _plain(shape: TransferShape) -> TransferShape:
    return TransferShape(shape.merged_ranges, shape.total_bytes, shape.direction)
