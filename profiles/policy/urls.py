"""What a database URL may look like, and how it is shown: without its passwords."""

import re
from urllib.parse import urlsplit

from pega_tune.profiles.policy.errors import QuestionError

URL_HINT = "write sqlite:////absolute/path or postgresql+psycopg://user@host/name; in passwords, @ is %40 and / is %2F"

_SCHEME = re.compile(r"[A-Za-z][\w+]*", re.ASCII)
# Greedy: a password may hold any sign, even an @ that should have been encoded.
_IN_AUTHORITY = re.compile(r"(://[^:/\s]*:)\S*@")
# https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_IN_QUERY = re.compile(r"\b((?:password|sslpassword|passfile)=)[^&\s]*", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """The text, passwords in the URLs in it blotted out."""
    return _IN_QUERY.sub(r"\1***", _IN_AUTHORITY.sub(r"\1***@", text))


def require_url(url: str) -> None:
    """Refuses what is no URL of a database, whatever its kind.

    Raises:
        QuestionError: as said.
    """
    scheme, separator, rest = url.partition("://")
    try:
        url.encode()
        authority = urlsplit(f"//{rest}")
        _ = authority.port
    except ValueError:  # not UTF-8, a bracket that is not closed, a port that is no number
        raise malformed(url) from None
    if not separator or not _SCHEME.fullmatch(scheme) or authority.netloc.count("@") > 1:
        raise malformed(url)


def malformed(url: str) -> QuestionError:
    """The refusal of a text that is no URL."""
    shown = without_passwords(re.sub(r"\s", "%20", url))
    return QuestionError(f"{shown!r} is not a database URL", URL_HINT)
