"""The run-time look-up: the shape of a transfer in, a copy plan out."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from pega_tune.errors import DeviceError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.answer import Origin, Question, from_rule, from_table
from pega_tune.profiles.policy.choose import DEFAULT_BUDGET, DEFAULT_PERIOD_S, Demand
from pega_tune.profiles.policy.decision import Decision
from pega_tune.profiles.policy.errors import ProfileDatabaseError, QuestionError
from pega_tune.profiles.policy.reader import check_database, find_profile
from pega_tune.profiles.policy.settings import database_url, sqlite_path, visible_devices
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.table import Table
from pega_tune.profiles.policy.terms import Colocation, Objective, Runtime, Tier, parse_word

DEFAULT_COLOCATION = Colocation.TIME_SLICED
HOST_RUNS_UNUSED = "the number of host runs changes nothing: no table depends on it yet"

Probe: TypeAlias = Callable[[], tuple[DeviceFacts, ...]]
TableKey: TypeAlias = tuple[Direction, Colocation, Runtime]


def probe_devices() -> tuple[DeviceFacts, ...]:
    """The GPUs of this host, in the order of CUDA."""
    from pega_tune.kernels.probe import list_devices  # late: most callers bring their facts, or need none

    return list_devices(visible_devices())


@dataclass(frozen=True, slots=True, eq=False)
class Auto:
    """Answers how to run a transfer. Immutable: threads may share one.

    Attributes:
        profile: what was learnt; None leaves the rule.
        tier: how closely the profile fits the device; `rule` without one.
        warnings: what may be wrong with every answer; a sentence each.
        clock: seconds since the epoch, to tell a profile's age.
    """

    profile: StoredProfile | None = None
    tier: Tier = Tier.RULE
    warnings: tuple[str, ...] = ()
    clock: Callable[[], float] = time.time
    _tables: Mapping[TableKey, Table] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tables = self.profile.policy.tables if self.profile else ()
        index = {(table.direction, table.colocation, table.runtime): table for table in tables}
        object.__setattr__(self, "_tables", MappingProxyType(index))

    @classmethod
    def for_device(
        cls,
        facts: DeviceFacts | None = None,
        db: str | Path | None = None,
        *,
        allow_drafts: bool = False,
        probe: Probe = probe_devices,
    ) -> "Auto":
        """Looks up the profile of a device: reads one row of an SQLite database, and creates and migrates nothing.

        Without a device, a database or a fitting profile the rule answers, and its warnings say why.

        Args:
            facts: the device; None takes the first that CUDA shows. Looking initialises the CUDA driver in this
                process, after which a forked child cannot use CUDA.
            db: path or SQLite URL; None takes `PEGA_TUNE_DB`, else the file in the per-user data directory.
            allow_drafts: use profiles that are not published, too.
            probe: lists the devices if `facts` is None.

        Raises:
            UsageError: `facts` are none, or `db` is no database at all.
            DataError: the database is not SQLite, not readable, not ours, or of another schema.
        """
        _require_types(facts, db)
        url = database_url(None if db is None else str(db))
        path = sqlite_path(url)
        if path is None:
            scheme = url.partition("://")[0]
            raise ProfileDatabaseError(f"profiles are looked up in SQLite, not {scheme}", "give an SQLite file")
        seen: tuple[str, ...] = ()
        if facts is None:
            check_database(path)  # a wrong path is an error without a GPU, too
            try:
                devices = probe()
            except DeviceError as error:
                return cls(warnings=(f"the rule answers: {error.message}",))
            if not devices:
                return cls(warnings=("the rule answers: no device is visible",))
            facts = devices[0]
            seen = (f"the first of {len(devices)} devices answers: {facts.uuid}",) if len(devices) > 1 else ()
        found = find_profile(path, facts, allow_drafts=allow_drafts)
        unused = found.unused or f"no profile fits {facts.uuid} in {path}: run pega-tune sweep"
        return cls(found.profile, found.tier, (*seen, *found.warnings, *(() if found.profile else (unused,))))

    @classmethod
    def from_profile(cls, profile: StoredProfile, tier: Tier = Tier.BOARD) -> "Auto":
        """Answers from a profile at hand, which the caller says to fit."""
        return cls(profile, tier)

    @classmethod
    def rule_only(cls) -> "Auto":
        """Answers by the rule, whatever the device."""
        return cls()

    def decide(  # noqa: PLR0913  (flat keywords are what serving code calls)
        self,
        merged_ranges: int,
        total_bytes: int,
        direction: str = Direction.BOTH,
        *,
        objective: str = Objective.BALANCED,
        budget: float = DEFAULT_BUDGET,
        period_s: float = DEFAULT_PERIOD_S,
        step_s: float | None = None,
        colocation: str | None = None,
        runtime: str = Runtime.FULL,
        host_runs: int | None = None,
    ) -> Decision:
        """How to run a transfer. Does no I/O and takes no lock.

        Args:
            merged_ranges: ranges per direction, after joining those adjacent on both sides.
            total_bytes: bytes per direction.
            direction: `h2d`, `d2h` or `both`.
            objective: `throughput`, `balanced`, `tail-bounded` or `strict`.
            budget: stall that `tail-bounded` allows per burst, as a fraction of a decode step.
            period_s: from one burst to the next, in seconds; plans that take longer are passed over.
            step_s: undisturbed decode step in seconds; None takes the step that the profile was measured beside.
            colocation: `idle`, `same-context`, `time-sliced` or `mps`; None takes `time-sliced` if it was measured.
            runtime: plans that the caller can run: `pegaflow`, `kernel-options` or `full`.
            host_runs: runs that are adjacent on the host side; checked, but no table depends on it yet, and a warning
                says so.

        Raises:
            UsageError: an unknown word, or a number out of its range.
        """
        if host_runs is not None and not 1 <= host_runs <= merged_ranges:
            raise QuestionError(f"host runs are 1 to the number of ranges, not {host_runs}")
        question = Question(
            TransferShape(merged_ranges, total_bytes, parse_word(Direction, direction), host_runs),
            Demand(parse_word(Objective, objective), budget, period_s, step_s),
            None if colocation is None else parse_word(Colocation, colocation),
            parse_word(Runtime, runtime),
        )
        return self._answer(question, () if host_runs is None else (HOST_RUNS_UNUSED,))

    def _answer(self, question: Question, notes: tuple[str, ...]) -> Decision:
        warnings = (*self.warnings, *notes)
        if self.profile is None:
            return from_rule(question, warnings)
        direction, runtime = question.shape.direction, question.runtime
        wanted = question.colocation or DEFAULT_COLOCATION
        table = self._tables.get((direction, wanted, runtime))
        if table is None:
            table = self._tables.get((direction, Colocation.IDLE, runtime))
            if table is None:
                missing = f"the profile has no table for {direction}, {runtime}: the rule answers"
                return from_rule(question, (*warnings, missing))
            warnings += (f"{wanted} was not measured: what was measured without decode (idle) answers",)
        age_s = max(0.0, self.clock() - self.profile.created_at.timestamp())
        origin = Origin(self.profile.profile_id, self.tier, self.profile.device.simulated, age_s)
        return from_table(question, table, origin, warnings)


def _require_types(facts: object, db: object) -> None:
    if facts is not None and not isinstance(facts, DeviceFacts):
        raise QuestionError(
            f"a device is told by its DeviceFacts, not by {facts!r}",
            "pega_tune.autotune.devices.find_device('sim:h200').facts gives those of a simulated device",
        )
    if db is not None and not isinstance(db, str | Path):
        raise QuestionError(f"a database is told by a path or a URL, not by {db!r}")
