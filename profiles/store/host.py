"""What the store asks of the machine it runs on, in one value that tests can replace."""

import math
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

# Write-ahead logging needs shared memory between all processes that have the file open, which network file systems
# do not give. What is not known to be local is taken for one: the rollback journal works everywhere.
# https://sqlite.org/wal.html#overview
LOCAL_FILE_SYSTEMS = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "reiserfs", "tmpfs", "xfs", "zfs"}
)
_DEAD_STATES = frozenset("ZXx")


def read_mountinfo() -> str:
    """The mounts of this process, as in proc_pid_mountinfo(5); empty if the kernel does not tell."""
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def process_token(pid: int) -> str | None:
    """What tells a process from an earlier or later one with the same id; None if there is no such process.

    It is the boot's id and the process's start time (proc_pid_stat(5), field 22). A process that has ended but was
    not waited for counts as gone. Empty if the process exists but the kernel does not tell more.
    """
    if pid < 1:
        return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "" if _exists(pid) else None
    # The command name stands in parentheses and may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in _DEAD_STATES else f"{_boot_id()}/{fields[19]}"


def file_system(path: Path, mountinfo: str) -> str:
    """Type of the file system that `path` is on, by the deepest mount above it; empty if unknown."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        head, separator, tail = line.partition(" - ")
        fields = head.split()
        if not separator or len(fields) < 5 or not tail:
            continue
        mount_point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4]))
        # Of two mounts over the same directory the later one is seen.
        if path.is_relative_to(mount_point) and len(mount_point.parts) >= best:
            best, kind = len(mount_point.parts), tail.split()[0]
    return kind


def utc_now() -> datetime:
    """The time, aware."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class HostView:
    """The machine, as the store sees it.

    Attributes:
        name: host name, compared with the one a sweep was started on.
        mountinfo: text as in proc_pid_mountinfo(5).
        process_token: as the function of this name.
        now: the time, aware, UTC.
        busy_timeout_s: how long SQLite itself waits for another process, in seconds.
        give_up_s: how long the store goes on trying after that, in seconds.
        away_s: how long to wait for a server where nobody listens when a database is opened, in seconds: it may be
            restarting, or its address wrong.
        silence_s: how long to wait for the next bytes of a server that has to answer, in seconds; longer than for a
            lock. Migrations wait without end.
    """

    name: str = field(default_factory=socket.gethostname)
    mountinfo: Callable[[], str] = read_mountinfo
    process_token: Callable[[int], str | None] = process_token
    now: Callable[[], datetime] = utc_now
    busy_timeout_s: float = 30.0
    give_up_s: float = 120.0
    away_s: float = 0.0
    silence_s: float = math.inf

    def file_system(self, path: Path) -> str:
        """Type of the file system that `path` is on; empty if unknown."""
        return file_system(path.resolve(), self.mountinfo())


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
