"""Notices a better profile in a database, or a new verdict: by two `stat` calls, and only after a change by a query."""

import os
from dataclasses import dataclass
from pathlib import Path

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.errors import ProfileDatabaseError
from pega_tune.profiles.policy.reader import best_standing, find_profile
from pega_tune.profiles.policy.sources import Sources
from pega_tune.profiles.policy.stored import Found, Standing

_Stamp = tuple[int, ...]

_KEPT = "what answered before goes on"


@dataclass(slots=True)
class DatabaseWatch:
    """Looks at a database again and again for the profile of one device. Not for two threads at once.

    Attributes:
        sources: where to look; bundles play no part.
        device: facts of the device.
        standing: of the stored profile that was found last; None if there was none.
    """

    sources: Sources
    device: DeviceFacts
    standing: Standing | None
    _read_at: tuple[_Stamp | None, ...] | None = None
    _settled: bool = False

    def look(self) -> Found | None:
        """What the database holds now if it may be another profile, or suspect; None if nothing has changed.

        A file's time moves in ticks of some milliseconds, so that a write may leave it as it is: each change is
        followed by one more query at the next look.

        Raises:
            ProfileDatabaseError: the database is gone, locked or refused, or no longer holds a usable profile though
                it did.
        """
        stamps = (_stamp(self.sources.path), _stamp(Path(f"{self.sources.path}-wal")))
        if self._settled and stamps == self._read_at:
            return None
        twice, self._settled = stamps == self._read_at, False  # until the query has gone well
        self._read_at = stamps
        found = self._query(missing=stamps[0] is None)
        self._settled = twice
        return found

    def _query(self, *, missing: bool) -> Found | None:
        path = self.sources.path
        if missing and self.standing is not None:
            raise ProfileDatabaseError(f"{path} is gone: {_KEPT}")
        drafts, patience_s = self.sources.allow_drafts, self.sources.busy_timeout_s
        best = best_standing(path, self.device, allow_drafts=drafts, busy_timeout_s=patience_s)
        if best == self.standing:
            return None
        found = find_profile(path, self.device, allow_drafts=drafts, busy_timeout_s=patience_s)
        if found.profile is None:
            why = "; ".join(found.all_warnings) or f"no profile fits {self.device.uuid} in {path} any more"
            raise ProfileDatabaseError(f"{why}: {_KEPT}")
        self.standing = found.standing
        return found


def _stamp(path: Path) -> _Stamp | None:
    """What changes when a file is written or replaced; None if there is no file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:  # the query will say what is wrong
        return (error.errno or 0,)
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
