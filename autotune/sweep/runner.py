"""One run of a sweep: block after block, each stored at once, until all are there or something ends it."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from pega_tune.autotune.engine import Engine, EngineLostError, MemoryLimitError, RenewableEngine, Status
from pega_tune.autotune.sweep.environment import Clock
from pega_tune.autotune.sweep.events import (
    BlockFinished,
    BlockSkipped,
    CellFailed,
    SweepEvent,
    SweepFinished,
    SweepStarted,
)
from pega_tune.autotune.sweep.gate import is_disturbed, judge
from pega_tune.autotune.sweep.keys import confirms
from pega_tune.autotune.sweep.losses import losses
from pega_tune.autotune.sweep.planner import SweepPlan
from pega_tune.autotune.sweep.recording import best_cell, profile_record
from pega_tune.autotune.sweep.serving_tasks import NothingToCompareError
from pega_tune.autotune.sweep.tasks import Task
from pega_tune.errors import DeviceError, PegaTuneError
from pega_tune.profiles.store.records import BlockRecord, SweepRecord, SweepState
from pega_tune.profiles.store.store import Store

MAX_FAILURES_IN_A_ROW = 3
MAX_RETRIES = 6  # blocks of a run that are measured once more because the device was disturbed
MAX_REASONS = 3  # a sweep says of so many blocks why it skipped them, and counts the others

# The device is well all the same.
_INNOCENT = (MemoryLimitError, NothingToCompareError)


class Run:
    """One run of a sweep that is stored and claimed: measures what is missing, and publishes what was learnt."""

    def __init__(self, sweep: SweepRecord, plan: SweepPlan, engine: Engine, store: Store, clock: Clock) -> None:
        self._sweep = sweep
        self._plan = plan
        self._engine = engine
        self._store = store
        self._clock = clock
        self._started_s = clock.seconds()
        self._records = {block.key: block for block in store.blocks(sweep.sweep_id)}
        # A killed run could not write its seconds; those of its blocks are there.
        self._earlier_s = max(sweep.seconds, sum(block.seconds for block in self._records.values()))
        self._expected_s = 0.0
        self._spent_s = 0.0
        self._done = self._late = self._unconfirmed = self._process = 0
        self._retries = MAX_RETRIES
        self._skipped: list[str] = []

    def events(self) -> Iterator[SweepEvent]:
        """Runs the sweep."""
        todo = self._plan.without(self._records)
        total = len(self._plan.blocks)
        self._done = total - len(todo.blocks)
        try:
            yield SweepStarted(self._sweep.sweep_id, total, self._done, todo.estimate_s, self._plan.budget_s)
            yield from self._measure(todo)
            finished = self._finish()
        except Exception as error:
            self._leave(SweepState.FAILED, f"{type(error).__name__}: {error}")
            raise
        except BaseException as signal:
            self._leave(SweepState.INTERRUPTED, f"interrupted ({type(signal).__name__})")
            raise
        yield finished

    def _measure(self, todo: SweepPlan) -> Iterator[SweepEvent]:
        late = failures = 0
        gaps = False
        for planned in todo.blocks:
            again = confirms(planned.key)
            if again and gaps:
                self._unconfirmed += 1  # what is missing may change the tables
                continue
            # The estimate of its first block has the start of the process in it, which the others need, too.
            if (again and late) or (self._done and not self._has_time(planned)):
                late += 1
                gaps |= not again
                continue
            try:
                record = self._run_block(planned)
            except DeviceError as error:
                self._skipped.append(f"{planned.key}: {error.message}")
                gaps |= not again
                yield BlockSkipped(planned.key, error.message)
                failures += not isinstance(error, _INNOCENT)
                if isinstance(error, EngineLostError) or failures == MAX_FAILURES_IN_A_ROW:
                    break
                continue
            failures = 0
            self._done += 1
            yield from self._report(record)
        self._late = late

    def _missing(self) -> Iterator[str]:
        """Why blocks of the sweep were not measured."""
        total = len(self._plan.blocks)
        yield from self._skipped[:MAX_REASONS]
        if len(self._skipped) > MAX_REASONS:
            yield f"{len(self._skipped)} of {total} blocks could not be measured"
        if self._late:
            yield f"out of time: {self._late} of {total} blocks are missing"
        if self._unconfirmed:
            yield f"{self._unconfirmed} more, of the second pass, wait for what is missing"
        unseen = total - self._done - len(self._skipped) - self._late - self._unconfirmed
        if unseen:
            yield f"stopped early: {unseen} of {total} blocks were not begun"

    def _run_block(self, task: Task) -> BlockRecord:
        begin_s = self._clock.seconds()
        if task.process not in (0, self._process) and isinstance(self._engine, RenewableEngine):
            self._engine.renew()
        self._process = task.process
        record = task.measure(self._engine, self._records)
        if is_disturbed(record) and self._retries and self._has_time(task):
            self._retries -= 1
            again = task.measure(self._engine, self._records)
            record = record if is_disturbed(again) else again
        record = replace(record, seconds=self._clock.seconds() - begin_s)
        self._store.add_block(self._sweep.sweep_id, record)
        self._records[record.key] = record
        self._spent_s += self._clock.seconds() - begin_s
        self._expected_s += task.estimate_s
        return record

    def _has_time(self, planned: Task) -> bool:
        """Whether the block should end within the budget, judged by how the estimates have held so far."""
        pace = self._spent_s / self._expected_s if self._expected_s else 1.0
        return self._elapsed_s() + pace * planned.estimate_s <= self._plan.budget_s

    def _report(self, record: BlockRecord) -> Iterator[SweepEvent]:
        for cell in record.cells:
            if cell.status != Status.OK:
                yield CellFailed(record.key, cell.name, cell.status, cell.detail)
        best, ratio = best_cell(record)
        yield BlockFinished(self._done, len(self._plan.blocks), record.key, best, ratio, self._elapsed_s())

    def _finish(self) -> SweepFinished:
        sweep_id = self._sweep.sweep_id
        blocks = tuple(self._records.values())
        learnt = self._plan.learner.learn(blocks)
        missing = tuple(self._missing())
        verdict = judge(learnt.policy, blocks, missing, self._plan.shortage).with_caveat(self._plan.caveat)
        profile_id = None
        if learnt.policy.tables:
            links = [block.link for block in blocks if block.link]
            profile = profile_record(self._sweep, learnt, verdict, links, self._clock.now())
            self._store.add_profile(profile)
            profile_id = profile.profile_id
        state = SweepState.INTERRUPTED if missing else SweepState.FINISHED
        seconds = self._seconds()
        self._store.update_sweep(sweep_id, state=state, reasons=verdict.reasons, seconds=seconds)
        cells = sum(len(block.cells) for block in blocks)
        counts = (len(blocks), cells, seconds)
        return SweepFinished(sweep_id, profile_id, verdict.state, verdict.reasons, *counts, losses(blocks))

    def _leave(self, state: SweepState, reason: str) -> None:
        # What ended the run is the news, not that a broken database cannot be told of it.
        with suppress(PegaTuneError):
            self._store.update_sweep(self._sweep.sweep_id, state=state, reasons=(reason,), seconds=self._seconds())

    def _elapsed_s(self) -> float:
        return self._clock.seconds() - self._started_s

    def _seconds(self) -> float:
        return self._earlier_s + self._elapsed_s()
