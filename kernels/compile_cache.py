"""What compiling has given, kept in a directory from one process to the next. Standard library only.

A file is a line with the SHA-256 of its name and of the rest, and the rest: one that is torn, damaged or renamed is as
good as none. Nothing that goes wrong here fails anything: it is compiled, then.
"""

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

MAX_FILES: Final = 120
"""Files that are kept, the latest used: four times the PTX and the machine code of 13 kernels and two notes, as there
are for each kind of GPU, release and compiler. The largest is some 100 KB."""

_OWNER_ONLY: Final = 0o700
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_OURS: Final = re.compile(r"[0-9a-f]{64}\.[a-z]+(\.[0-9a-f]+)?")  # an unfinished one has one part more


class CompileCache:
    """Results by name, in a directory that nobody else can write to; or no cache at all.

    Attributes:
        directory: where; None for nowhere.
        variables: environment variables that bear on the results, as (name, value).
    """

    def __init__(
        self, directory: Path | None, variables: tuple[tuple[str, str], ...] = (), max_files: int = MAX_FILES
    ) -> None:
        """Touches nothing before something is looked for.

        Args:
            directory: where; it is made when something is kept, and not used if it is not the user's alone.
            variables: environment variables that bear on the results, as (name, value).
            max_files: files that are kept, the latest used.
        """
        self.directory: Final = directory
        self.variables: Final = variables
        self._max_files: Final = max_files

    def kept(self, name: Callable[[], str], make: Callable[[], bytes]) -> bytes:
        """What was kept under a name; made, and kept, if it is not there.

        Args:
            name: gives 64 hexadecimal digits that stand for everything that decides the result, a point and its kind.
                What it gives after the making must be the same as before it, or the result is not kept; so it is if
                this raises an `OSError`.
            make: makes the result.

        Raises:
            Whatever `make` does.
        """
        if self.directory is None:
            return make()
        wanted = _or_none(name)
        found = None if wanted is None else self._read(wanted)
        if found is None:
            found = make()
            if wanted is not None and _or_none(name) == wanted:
                self._write(wanted, found)
        return found

    def _read(self, name: str) -> bytes | None:
        with suppress(OSError), self._opened() as directory:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
            with open(file, "rb") as stream:
                check, _, content = stream.read().partition(b"\n")
            if check == _check(name, content):
                with suppress(OSError):
                    os.utime(name, dir_fd=directory)  # it is the latest used
                return content
        return None

    def _write(self, name: str, content: bytes) -> None:
        with suppress(OSError):
            assert self.directory is not None
            self.directory.mkdir(_OWNER_ONLY, parents=True, exist_ok=True)
            with self._opened() as directory:
                unfinished = f"{name}.{secrets.token_hex(8)}"
                try:
                    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory)
                    with open(file, "wb") as stream:
                        stream.write(_check(name, content) + b"\n" + content)
                    os.replace(unfinished, name, src_dir_fd=directory, dst_dir_fd=directory)
                except OSError:
                    os.unlink(unfinished, dir_fd=directory)
                    raise
                self._forget_oldest(directory)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """A descriptor of the directory, which stays the one that was looked at.

        Raises:
            OSError: there is none, or others can write to it.
        """
        assert self.directory is not None
        directory = os.open(self.directory, _DIRECTORY)
        try:
            if not is_private(os.fstat(directory), os.geteuid()):
                raise PermissionError("the directory is not the user's alone")
            yield directory
        finally:
            os.close(directory)

    def _forget_oldest(self, directory: int) -> None:
        names = [name for name in os.listdir(directory) if _OURS.fullmatch(name)]
        if len(names) <= self._max_files:
            return
        used: list[tuple[int, str]] = []
        for name in names:
            with suppress(FileNotFoundError):  # another process forgets, too
                used.append((os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime_ns, name))
        for _, name in sorted(used)[: max(0, len(used) - self._max_files)]:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)


NO_CACHE: Final = CompileCache(None)
"""Keeps nothing: everything is compiled."""


def is_private(about: os.stat_result, user: int) -> bool:
    """Whether what this is about is a user's own, and nobody else may write to it."""
    return about.st_uid == user and not about.st_mode & _WRITABLE_BY_OTHERS


def _or_none(name: Callable[[], str]) -> str | None:
    try:
        return name()
    except OSError:
        return None


def _check(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + content).hexdigest().encode()
