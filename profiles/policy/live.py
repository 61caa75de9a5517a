"""An `Auto` that follows the database: a thread of its own looks for a newer profile, and swaps one reference."""

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import MethodType, TracebackType
from typing import Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from pega_tune.errors import DataError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.errors import QuestionError
from pega_tune.profiles.policy.sources import (
    PACKAGED,
    Probe,
    Sources,
    database_path,
    find_subject,
    packaged_folder,
    probe_devices,
    require_facts,
)
from pega_tune.profiles.policy.terms import Tier
from pega_tune.profiles.policy.watch import DatabaseWatch

DEFAULT_INTERVAL_S = 5.0

P = ParamSpec("P")
R = TypeVar("R")

# A child that is forked in the middle of a query would find SQLite's own locks taken for ever.
_QUERYING = threading.RLock()
os.register_at_fork(before=_QUERYING.acquire, after_in_parent=_QUERYING.release, after_in_child=_QUERYING.release)


class Alarm(Protocol):
    """What the thread sleeps on. `threading.Event` is one."""

    def wait(self, timeout: float) -> bool:
        """Sleeps for `timeout` seconds; True, and at once, when it has been set."""

    def set(self) -> None:
        """Ends the sleep, and all later ones."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a `LiveAuto` takes from its host.

    Attributes:
        probe: lists the devices if no facts are given.
        packaged: folder of the bundled profiles.
        alarm: makes what its thread sleeps on.
    """

    probe: Probe = probe_devices
    packaged: str | Path = PACKAGED
    alarm: Callable[[], Alarm] = threading.Event


@dataclass(frozen=True, slots=True)
class LiveState:
    """Where a `LiveAuto` stands.

    Attributes:
        profile: id of the profile that answers; None for the rule.
        tier: how closely it fits the device.
        trouble: why the database cannot be followed; empty if it can.
        watching: whether the thread runs. It does not without a device, once closed, and in a forked child.
    """

    profile: str | None
    tier: Tier
    trouble: str
    watching: bool


class _Delegated(Generic[P, R]):
    """A method of the `Auto` that is current when it is asked for."""

    def __init__(self, method: Callable[Concatenate[Auto, P], R]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, live: None, owner: type) -> Self: ...
    @overload
    def __get__(self, live: "LiveAuto", owner: type) -> Callable[P, R]: ...
    def __get__(self, live: "LiveAuto | None", owner: type) -> "Self | Callable[P, R]":
        return self if live is None else MethodType(self._method, live.auto)


class LiveAuto:
    """Answers as `Auto`, always from the best profile that the database holds. Threads may share one.

    It reads the database when it is made, and from then on, while it does not change, asks the file system for two
    times per interval. A better profile replaces the old one as a whole: each decision comes from one of the two. A new
    verdict of `pega-tune verify` on the same profile is in the warnings of the decisions that follow. If the database
    vanishes, is locked or replaced, or its profiles are no longer to be used, the last good profile goes on answering,
    and the warnings of every decision say so.

    A forked child answers from the profile that was current at the fork and follows nothing: make another there.

    Attributes:
        auto: the current answerer; take it once where several answers must agree.
    """

    auto: Auto

    decide = _Delegated(Auto.decide)
    decide_many = _Delegated(Auto.decide_many)
    explain = _Delegated(Auto.explain)

    def __init__(
        self,
        facts: DeviceFacts | None = None,
        db: str | Path | None = None,
        *,
        interval_s: float = DEFAULT_INTERVAL_S,
        allow_drafts: bool = False,
        around: Surroundings | None = None,
    ) -> None:
        """Reads the database and starts the thread.

        Args:
            facts: the device; None takes the first that CUDA shows, as in `Auto.for_device`.
            db: path or SQLite URL, as in `Auto.for_device`. The file may appear later.
            interval_s: seconds from one look at the database to the next.
            allow_drafts: use profiles that are not published, too.
            around: the host.

        Raises:
            UsageError, DataError: as `Auto.for_device`; later nothing is raised.
        """
        if not 0 < interval_s <= threading.TIMEOUT_MAX:
            raise QuestionError(f"interval_s is a positive number of seconds, not {interval_s}")
        around = around or Surroundings()
        require_facts(facts)
        folder = packaged_folder(around.packaged)
        path = database_path(db).absolute()  # the process may change its folder
        subject = find_subject(facts, path, around.probe)
        self._notes = subject.notes
        self._trouble = ""
        self._thread: threading.Thread | None = None
        self._alarm = around.alarm()
        if subject.device is None:
            self.auto = self._good = Auto(warnings=subject.notes)
            return
        sources = Sources(path, allow_drafts, folder)
        found = sources.find(subject.device)
        self.auto = self._good = Auto(found.profile, found.tier, (*self._notes, *found.all_warnings))
        # Nobody waits for a lock here: the next look comes anyway.
        self._watch = DatabaseWatch(replace(sources, busy_timeout_s=0.0), subject.device, found.standing)
        self._start(interval_s)

    def _start(self, interval_s: float) -> None:
        # Weak: one that nobody uses any more is let go, and its thread ends after the interval.
        arguments = (weakref.ref(self), self._alarm, interval_s)
        self._thread = threading.Thread(target=_follow, args=arguments, name="pega-tune-live", daemon=True)
        self._thread.start()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may be wrong with every answer, a sentence each."""
        return self.auto.warnings

    @property
    def state(self) -> LiveState:
        """Where it stands."""
        auto = self.auto
        watching = self._thread is not None and self._thread.is_alive()
        return LiveState(auto.profile.profile_id if auto.profile else None, auto.tier, self._trouble, watching)

    def check(self) -> None:
        """Looks at the database now, as the thread does after every interval. Raises nothing."""
        if self._thread is None:
            return
        with _QUERYING:
            found, trouble = None, ""
            try:
                found = self._watch.look()
            except DataError as error:
                trouble = error.message
            except Exception as error:  # whatever it is, the thread goes on and decisions are made
                trouble = f"looking for a newer profile failed: {type(error).__name__}: {error}"
            if found is not None:
                self._good = Auto(found.profile, found.tier, (*self._notes, *found.all_warnings))
            elif trouble == self._trouble:
                return
            self._trouble = trouble
            self.auto = replace(self._good, warnings=(*self._good.warnings, *filter(None, (trouble,))))

    def close(self) -> None:
        """Ends the thread; decisions go on with the profile at hand."""
        # In a forked child there is no thread, and the alarm's own lock may be taken for ever.
        if self._thread is not None and self._thread.is_alive():
            self._alarm.set()
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _follow(live: "weakref.ref[LiveAuto]", alarm: Alarm, interval_s: float) -> None:
    while not alarm.wait(interval_s):
        target = live()
        if target is None:
            return
        target.check()
        del target  # not while sleeping
