"""Bundles on disk."""

import os
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from pega_tune.profiles.bundle.document import Bundle, read, write
from pega_tune.profiles.bundle.errors import BundleError
from pega_tune.profiles.bundle.keys import SigningKey, TrustedKey
from pega_tune.profiles.bundle.strict_json import MAX_TEXT_BYTES

_GZIP = b"\x1f\x8b"  # RFC 1952, section 2.3.1
_NO_BUNDLE_HINT = (
    "`pega-tune export PROFILE -o FILE` writes a bundle; what `pega-tune sweeps export` writes is replayed, as "
    "docs/measuring.md says"
)


def read_bundle(path: Path, trusted: TrustedKey | None = None) -> Bundle:
    """The profile in a file.

    Args:
        path: the file.
        trusted: a signature of this key is needed; without it one is not checked.

    Raises:
        BundleError: it cannot be read, or is refused; the message names the file and says why.
    """
    try:
        text = _content(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BundleError(f"{path} cannot be read: {reason}", "name another file") from None
    try:
        if text.startswith(_GZIP):
            raise BundleError("it is compressed, as the recording of a sweep is, and no bundle", _NO_BUNDLE_HINT)
        return read(text, trusted)
    except BundleError as error:
        raise BundleError(f"the bundle {path} is refused: {error.message}", error.hint) from None


def write_bundle(bundle: Bundle, path: Path, key: SigningKey | None = None) -> None:
    """Puts the profile into a file, which is replaced as a whole, or not at all; signed if there is a key.

    Raises:
        BundleError: the bundle would be refused, or the file cannot be written.
    """
    replace_file(path, write(bundle, key))


def replace_file(path: Path, text: bytes) -> None:
    """Writes a file, which is replaced as a whole, or not at all.

    Raises:
        BundleError: it cannot be written.
    """
    try:
        target = Path(os.path.realpath(path))  # a link stays a link
        if target.exists() and not target.is_file():
            raise BundleError(f"{path} is no regular file", "name another file")
        _replace(target, text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BundleError(f"{path} cannot be written: {reason}", "name another file") from None


def _replace(target: Path, text: bytes) -> None:
    draft = target.with_name(f".pega-tune-{os.urandom(8).hex()}")
    try:
        with draft.open("xb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _content(path: Path) -> bytes:
    """The content of a regular file, or enough of it to see that it is too long."""
    if not S_ISREG(path.stat().st_mode):  # a pipe would have us wait
        raise BundleError(f"{path} is no regular file", "name a file of pega-tune export")
    with path.open("rb") as file:
        return file.read(MAX_TEXT_BYTES + 1)
