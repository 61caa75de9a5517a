"""Runs a canary: measures the shapes of a profile again until it is clear whether they hold, or the time is used up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final

from pega_tune.autotune.engine import Engine, MemoryLimitError, RenewableEngine
from pega_tune.autotune.sweep.environment import Clock, SystemClock
from pega_tune.autotune.sweep.keys import confirms
from pega_tune.autotune.sweep.recording import Measured, block_record
from pega_tune.autotune.sweep.run import METHOD_VERSION
from pega_tune.autotune.verify.changes import State
from pega_tune.autotune.verify.comparison import Comparison
from pega_tune.autotune.verify.probes import Probe, choose_shapes, probes_of
from pega_tune.autotune.verify.verification import Verdict, Verification
from pega_tune.errors import UsageError
from pega_tune.kernels.facts import DeviceFacts, Link, stale_fields
from pega_tune.profiles.policy.compiled import decode
from pega_tune.profiles.policy.matching import fit
from pega_tune.profiles.store.records import BlockFlag, ProfileRecord
from pega_tune.profiles.store.store import Store

# What seems to have drifted is looked at once more before it counts, in a fresh process if there is time to start one:
# times differ from process to process.
_LOOKS: Final = 2
_PROCESSES: Final = 3
# So many shapes make a fresh process worth its start.
_WORTH: Final = 4

# Seconds for a shape, before one has been measured.
_BLOCK_S: Final = 0.3

_DISTURBANCES: Final = {
    BlockFlag.THROTTLED: "the device was throttled",
    BlockFlag.CONTENDED: "other processes used the device",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A profile to verify.

    Attributes:
        profile: the profile.
        probes: the shapes to measure again; none if its measurements are not in this database.
    """

    profile: ProfileRecord
    probes: tuple[Probe, ...]


def load_subject(store: Store, profile: ProfileRecord) -> Subject:
    """Reads those of a profile's measurements that are to be made again.

    Raises:
        DataError: the profile cannot be read, or the database refuses.
    """
    keys = store.finished_blocks(profile.sweep_id)
    chosen = choose_shapes(decode(profile.compiled), sorted(keys))
    wanted = {one.key for one in chosen} | {key for key in keys if confirms(key)}
    blocks = {block.key: block for block in store.blocks(profile.sweep_id, wanted)} if wanted else {}
    return Subject(profile, probes_of(chosen, blocks))


@dataclass(frozen=True, slots=True)
class Terms:
    """How a canary runs.

    Attributes:
        until_s: when to stop, on the clock's `seconds`.
        began_s: when it began, likewise, before the engine was started: a fresh process takes as long; None leaves the
            start out.
        seed: of layouts, data and order.
        clock: where the time comes from.
    """

    until_s: float
    began_s: float | None = None
    seed: int = 0
    clock: Clock = field(default_factory=SystemClock)


def verify(subject: Subject, engine: Engine, terms: Terms) -> Verification:
    """Measures and judges. The engine stays open.

    Raises:
        UsageError: the profile is of another device.
        DeviceError: the device is not usable, or has been lost.
    """
    return _Canary(subject, engine, terms).run()


class _Canary:
    def __init__(self, subject: Subject, engine: Engine, terms: Terms) -> None:
        self._subject = subject
        self._engine = engine
        self._terms = terms
        self._clock = terms.clock
        self._begin_s = self._clock.seconds()
        self._start_s = self._begin_s - (self._begin_s if terms.began_s is None else terms.began_s)
        self._process = 1
        self._comparison = Comparison(subject.probes)
        self._disturbed: dict[Probe, BlockFlag] = {}
        self._took_s: dict[Probe, float] = {}
        self._links: set[Link] = set()

    def run(self) -> Verification:
        """Measures, unless something stands in the way, and judges."""
        _require_fitting(self._subject.profile, self._engine.facts)
        obstacles = tuple(self._obstacles())
        if obstacles:
            return self._ended(Verdict.INCONCLUSIVE, obstacles)
        self._measure()
        return self._ended(*self._judged())

    def _obstacles(self) -> Iterator[str]:
        profile = self._subject.profile
        if profile.method_version != METHOD_VERSION:
            yield f"it was measured by method {profile.method_version}, this version has {METHOD_VERSION}: sweep again"
        elif not self._subject.probes:
            yield "its measurements are not in this database, so that there is nothing to compare with: sweep here"
        elif others := self._engine.capabilities().other_processes:
            pids = ", ".join(map(str, others))
            yield f"other processes use the device (process id {pids}): times would not be its own"

    def _measure(self) -> None:
        due: Sequence[Probe] = self._subject.probes
        look = 0
        while any(map(self._has_time, due)):
            for probe in filter(self._has_time, due):
                self._look_at(probe, look)
            look += 1
            due = self._due(look)

    def _due(self, looks: int) -> Sequence[Probe]:
        """What to measure once more, in a fresh process if that tells more and there is time to start it."""
        states = self._comparison.states()
        wanted = {State.UNDECIDED, State.DRIFTED} if looks < _LOOKS else {State.UNDECIDED}
        unclear = {subject for subject, state in states.items() if state in wanted}
        telling = self._comparison.telling(unclear)
        if telling and self._renewed_for(telling):
            return tuple(dict.fromkeys((*self._disturbed, *telling)))
        again = telling if looks < _LOOKS else self._comparison.noisy(unclear)
        return tuple(dict.fromkeys((*self._disturbed, *again)))

    def _renewed_for(self, due: Sequence[Probe]) -> bool:
        """Starts a fresh process, if there may be one more, and time for it and some of these shapes."""
        needed_s = self._start_s + sum(map(self._expected_s, due[:_WORTH]))
        late = self._clock.seconds() + needed_s > self._terms.until_s
        if late or self._process == _PROCESSES or not isinstance(self._engine, RenewableEngine):
            return False
        self._engine.renew()
        self._engine.capabilities()  # waits until it is there, so that no shape seems to take as long
        self._process += 1
        return True

    def _has_time(self, probe: Probe) -> bool:
        return self._clock.seconds() + self._expected_s(probe) <= self._terms.until_s

    def _expected_s(self, probe: Probe) -> float:
        """What a shape should take: as before, or as the longest so far."""
        return self._took_s.get(probe, max(self._took_s.values(), default=0.0))

    def _look_at(self, probe: Probe, number: int) -> None:
        """Measures a shape; a measurement that was disturbed does not count."""
        begin_s = self._clock.seconds()
        block = probe.block(self._terms.seed, number)
        try:
            measurements = tuple(self._engine.transfer(block))
        except MemoryLimitError:
            return
        finally:
            self._took_s[probe] = self._clock.seconds() - begin_s
        conditions = self._engine.conditions()
        record = block_record(Measured(block, measurements, conditions), self._engine.facts.identity.max_link)
        self._disturbed.pop(probe, None)
        flag = next((flag for flag in _DISTURBANCES if flag in record.flags), None)
        if flag is not None:
            self._disturbed[probe] = flag
            return
        self._comparison.add(probe, self._process, record)
        if record.link is not None:
            self._links.add(record.link)

    def _judged(self) -> tuple[Verdict, tuple[str, ...]]:
        if self._disturbed:
            flags = dict.fromkeys(self._disturbed.values())
            return Verdict.INCONCLUSIVE, tuple(f"{_DISTURBANCES[flag]} while it was measured" for flag in flags)
        drifts = (*self._slower_link(), *self._comparison.failures(), *self._comparison.drifts())
        if drifts:
            return Verdict.DRIFTED, drifts
        if not self._took_s:
            return Verdict.INCONCLUSIVE, tuple(self._shortage())
        open_questions = tuple(self._comparison.open_questions())
        if not open_questions:
            return Verdict.HOLDS, tuple(self._unmeasured())
        return Verdict.INCONCLUSIVE, (*self._shortage(), *open_questions)

    def _shortage(self) -> Iterator[str]:
        """What more time would do."""
        yield from (told := tuple(self._unmeasured()))
        if not told and isinstance(self._engine, RenewableEngine) and self._process < _PROCESSES:
            enough_s = self._enough_s(self._subject.probes, self._start_s)
            yield f"out of time for a fresh process, try --budget {enough_s}s"

    def _unmeasured(self) -> Iterator[str]:
        probes = self._subject.probes
        if missing := [probe for probe in probes if probe not in self._took_s]:
            why = f"out of time: {len(missing)} of {len(probes)} shapes were not measured"
            yield f"{why}, try --budget {self._enough_s(missing)}s"

    def _enough_s(self, probes: Sequence[Probe], start_s: float = 0.0) -> int:
        """A budget for all that has been done, these shapes and a start, with a quarter to spare."""
        spent_s = self._start_s + self._clock.seconds() - self._begin_s
        to_come_s = sum(self._expected_s(probe) or _BLOCK_S for probe in probes)
        return ceil(1.25 * (spent_s + start_s + to_come_s))

    def _slower_link(self) -> Iterator[str]:
        then, now = self._subject.profile.device.staleness.trained_link, self._link()
        if then and now and (now.generation < then.generation or now.width < then.width):
            yield f"under load the link is {_words(now)}, and was {_words(then)}"

    def _link(self) -> Link | None:
        """The fastest link seen: it trains down between bursts."""
        return max(self._links, key=lambda link: (link.generation, link.width), default=None)

    def _ended(self, verdict: Verdict, reasons: tuple[str, ...]) -> Verification:
        profile, facts = self._subject.profile, self._engine.facts
        link = self._link()
        device = replace(facts, staleness=replace(facts.staleness, trained_link=link)) if link else facts
        return Verification(
            profile_id=profile.profile_id,
            device=device,
            stale=stale_fields(profile.device.staleness, device.staleness),
            verdict=verdict,
            reasons=reasons,
            cells=self._comparison.cells(),
            seconds=self._clock.seconds() - self._begin_s,
            at=self._clock.now(),
        )


def _words(link: Link) -> str:
    return f"PCIe {link.generation}.0 x{link.width}"


def _require_fitting(profile: ProfileRecord, device: DeviceFacts) -> None:
    if fit(profile.device, device) is None:
        raise UsageError(
            f"profile {profile.profile_id} is of another device: {profile.device.uuid}, not {device.uuid}",
            "name its device with --device",
        )
