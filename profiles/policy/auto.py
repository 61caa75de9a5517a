"""The run-time look-up: the shape of a transfer in, a copy plan out."""

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.choose import DEFAULT_BUDGET, DEFAULT_PERIOD_S
from pega_tune.profiles.policy.decision import Decision, Origin
from pega_tune.profiles.policy.lookup import Grids, Lookup
from pega_tune.profiles.policy.question import (
    ALIGNMENTS,
    MANY_PER_RUN,
    ONE_RUN,
    PITCH,
    RANGES_PER_RUN,
    Asked,
    Terms,
    Words,
    whole,
    words_of,
)
from pega_tune.profiles.policy.sources import (
    PACKAGED,
    Probe,
    Sources,
    database_path,
    find_subject,
    load_bundle,
    packaged_folder,
    probe_devices,
    require_facts,
    require_file,
)
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.terms import Objective, Runtime, Tier, parse_word

if TYPE_CHECKING:
    from pega_tune.profiles.policy.explanation import Explanation
    from pega_tune.profiles.policy.many import Decisions
    from pega_tune.profiles.policy.many_shapes import Integers


@dataclass(frozen=True, slots=True, eq=False)
class Auto:
    """Answers how to run a transfer. Immutable: threads may share one.

    What was answered is kept inside, without a lock: an answer that two threads work out at once is the same.

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
    _lookup: Lookup = field(init=False, repr=False)
    _answers: Mapping[Words, Grids] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        profile = self.profile
        if profile is None:
            lookup = Lookup((), Origin(), self.warnings)
        else:
            made_s = profile.created_at.timestamp()
            origin = Origin(profile.profile_id, self.tier, profile.device.simulated, made_s, self.clock)
            lookup = Lookup(profile.policy.tables, origin, self.warnings)
        object.__setattr__(self, "_lookup", lookup)
        object.__setattr__(self, "_answers", lookup.answers)

    @classmethod
    def for_device(
        cls,
        facts: DeviceFacts | None = None,
        db: str | Path | None = None,
        *,
        allow_drafts: bool = False,
        probe: Probe = probe_devices,
        packaged: str | Path = PACKAGED,
    ) -> "Auto":
        """Looks up the profile of a device: reads one row of an SQLite database, and creates and migrates nothing.

        Where no stored profile fits, a bundled one of the same class or family answers; without that, or without a
        device, the rule does. The warnings say why.

        Args:
            facts: the device; None takes the first that CUDA shows. Looking initialises the CUDA driver in this
                process, after which a forked child cannot use CUDA.
            db: path or SQLite URL; None takes `PEGA_TUNE_DB`, else the file in the per-user data directory.
            allow_drafts: use profiles that are not published, too.
            probe: lists the devices if `facts` is None.
            packaged: folder of the bundled profiles; those that are shipped unless given.

        Raises:
            UsageError: `facts` are none, `db` is no database at all, or `packaged` no folder.
            DataError: the database is not SQLite, not readable, not ours, or of another schema.
        """
        require_facts(facts)
        folder = packaged_folder(packaged)
        path = database_path(db)
        subject = find_subject(facts, path, probe)
        if subject.device is None:
            return cls(warnings=subject.notes)
        found = Sources(path, allow_drafts, folder).find(subject.device)
        return cls(found.profile, found.tier, (*subject.notes, *found.all_warnings))

    @classmethod
    def load(
        cls,
        bundle: str | Path,
        facts: DeviceFacts | None = None,
        *,
        allow_drafts: bool = False,
        trust: str | Path | None = None,
    ) -> "Auto":
        """Answers from a bundle, as `pega-tune export` writes them; needs no database.

        Args:
            bundle: path of the file.
            facts: the device to run on; None checks nothing, and the warnings say so.
            allow_drafts: use a profile that is not published, too.
            trust: a PEM file with the Ed25519 key that has to have signed the bundle, which needs `pega-tune[sign]`;
                None checks no signature.

        Raises:
            UsageError: `facts` are none, or `bundle` or `trust` is no path.
            DataError: the file is no bundle, or damaged, or not signed with the key; or its profile is not published or
                does not fit the device.
            DeviceError: signatures cannot be checked here.
        """
        require_facts(facts)
        require_file(bundle)
        if trust is not None:
            require_file(trust)
        key = None if trust is None else Path(trust)
        found = load_bundle(Path(bundle), facts, allow_drafts=allow_drafts, trust=key)
        return cls(found.profile, found.tier, found.all_warnings)

    @classmethod
    def from_profile(cls, profile: StoredProfile, tier: Tier = Tier.BOARD) -> "Auto":
        """Answers from a profile at hand, which the caller says to fit."""
        return cls(profile, tier)

    @classmethod
    def rule_only(cls) -> "Auto":
        """Answers by the rule, whatever the device."""
        return cls()

    def decide(  # noqa: C901, PLR0913  (flat keywords are what serving code calls, and calls cost time)
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
        alignment: int | None = None,
        pitch: int | None = None,
    ) -> Decision:
        """How to run a transfer. Does no I/O and takes no lock; what was asked before is not worked out again.

        What is known of how the ranges lie lets plans answer that need it (`staged`, `pitched`), if the runtime is
        `full`; without it, the best plan that needs no such knowledge does.

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
            host_runs: runs that are adjacent on the host side; None if unknown.
            alignment: largest power of two, at most 16, dividing every address and size; None if unknown. It changes
                no answer yet.
            pitch: device stride in bytes if the ranges are one arithmetic progression; None if not, or unknown.

        Raises:
            UsageError: an unknown word, a count that is no whole number, or a number out of its range.
        """
        words = (direction, objective, budget, period_s, step_s, colocation, runtime)
        try:
            size = total_bytes // merged_ranges
            known = 0  # what `known_of` says, without the call; what it refuses goes the slow way
            if host_runs is not None:
                if host_runs.__class__ is not int or not 1 <= host_runs <= merged_ranges:
                    raise TypeError
                if merged_ranges >= RANGES_PER_RUN * host_runs:
                    known = MANY_PER_RUN
                if host_runs == 1:
                    known += ONE_RUN
            if pitch is not None:
                if pitch.__class__ is not int or pitch < size:
                    raise TypeError
                known += PITCH
            if alignment is not None and (alignment.__class__ is not int or alignment not in ALIGNMENTS):
                raise TypeError
            grid = self._answers[words][known]
            row, column = bisect_right(grid.rows, merged_ranges), bisect_right(grid.columns, size)
            decision = grid.whole[row][column]
            if decision is None:
                decision = grid.kept[bisect_right(grid.products, merged_ranges * size)][row][column]
            # A quotient is an int of its own if both are; but True and 1 are the same to all of the above.
            if decision is not None and size.__class__ is int and merged_ranges is not True and total_bytes is not True:
                return decision
        # Not asked before, or not in plain numbers, or senseless: then the slow way refuses it.
        except (KeyError, TypeError, ZeroDivisionError):
            pass
        ranges, nbytes = whole("merged_ranges", merged_ranges), whole("total_bytes", total_bytes)
        lying = {"host_runs": host_runs, "alignment": alignment, "pitch": pitch}
        layout = {name: None if value is None else whole(name, value) for name, value in lying.items()}
        return self._lookup.ask(words, TransferShape(ranges, nbytes, parse_word(Direction, direction), **layout))

    def explain(
        self, merged_ranges: int, total_bytes: int, direction: str = Direction.BOTH, **asked: Unpack[Asked]
    ) -> "Explanation":
        """What `decide` answers to the same question, with the rivals of the plan and what the answer rests on.

        Raises:
            UsageError: as `decide`.
        """
        from pega_tune.profiles.policy.explanation import explain  # late: serving code decides, and hardly asks why

        decision = self.decide(merged_ranges, total_bytes, direction, **asked)
        layout = asked.get("host_runs"), asked.get("alignment"), asked.get("pitch")
        return explain(decision, TransferShape(merged_ranges, total_bytes, decision.direction, *layout))

    def decide_many(
        self,
        merged_ranges: "Integers",
        total_bytes: "Integers",
        direction: str = Direction.BOTH,
        *,
        host_runs: "Integers | int | None" = None,
        alignment: "Integers | int | None" = None,
        pitch: "Integers | int | None" = None,
        **terms: Unpack[Terms],
    ) -> "Decisions":
        """What `decide` answers for each of N shapes. Loads numpy.

        Args:
            merged_ranges: (N,) ranges per direction of each shape.
            total_bytes: (N,) bytes per direction.
            direction: of all.
            host_runs: of all, or (N,) of each; 0 where it is not known.
            alignment: likewise.
            pitch: likewise.
            terms: objective, budget, period_s, step_s, colocation and runtime of all.

        Raises:
            UsageError: an unknown word, or a number out of its range; the message names the first shape with one.
        """
        from pega_tune.profiles.policy.many import decide_shapes
        from pega_tune.profiles.policy.many_shapes import Layouts, check_shapes

        answers = self._lookup.prepared(words_of(direction, terms))
        return decide_shapes(check_shapes(merged_ranges, total_bytes, Layouts(host_runs, alignment, pitch)), answers)
