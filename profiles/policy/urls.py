"""What a database URL may look like, and how it is shown: without its passwords."""

import re
from urllib.parse import urlsplit

from pega_tune.profiles.policy.errors import QuestionError

URL_HINT = "write sqlite:////absolute/path or postgresql://user@host/name; in passwords @ is %40, / is %2F, a blank %20"

_SCHEME = re.compile(r"[A-Za-z][\w+]*", re.ASCII)
# Greedy: a password may hold any sign, even an @ that should have been encoded. The slashes may be too few, as pathlib
# and hasty writers leave them, and the scheme may be missing.
_IN_AUTHORITY = re.compile(
    r"""((?::/{1,2}|(?<!/)//)[^:/\s'"]*:|(?:^|[\s'"(=])[^:/\s'"]*:(?!/))\S*@""",
)
# Where only a server can be meant, the password may hold blanks, or the host be missing. What looks like a port is one.
_SERVER = r"(?:postgres|psycopg)\w*(?:\+\w+)?(?::/{0,2}|/{1,2})"
_WITH_BLANKS = re.compile(
    rf"""({_SERVER}[^:/\[\s'"]*:)(?!\*\*\*@|\d+(?:[/?,'")]|$)|/)[^@\n]*@(?:\S*@)?""", re.IGNORECASE
)
# With two slashes after it, any scheme will do where blanks do not come in.
_WITHOUT_HOST = re.compile(
    rf"""((?:\w[\w+]*://|{_SERVER})[^:/@\[\s'"]*:)(?!\*\*\*@|\d+(?:[/?,'")\s]|[;:.]\s|$))[^\s@'"()/]+""", re.IGNORECASE
)
# What stands where a port belongs, and is none: whoever wrote it may have meant it for the password.
_FOR_A_PORT = re.compile(
    rf"""({_SERVER}[^\s/@]*@[^:/@\[\s'"]*:)(?!\*\*\*@|\d+(?:[/?,'")\s]|$))[^\s/?'"]+""", re.IGNORECASE
)
# https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_IN_QUERY = re.compile(r"\b((?:password|sslpassword|passfile)\s*=\s*)('[^']*'|[^&\s]*)", re.IGNORECASE)

# What somebody writes who means a server: its scheme, a password before a host, or libpq's own keywords.
_LIKE_A_SERVER = re.compile(
    r"""[\s'"]*(postgres|psycopg)\w*(\+\w+)?([:;]|//)|[^/:]*:.*@|.*\b(password|dbname)\s*=""", re.IGNORECASE | re.DOTALL
)

_USER_ALONE = re.compile(r"[^\[/@:]*:[^/@]*(/|$)")  # and a password, the host forgotten; or a host with an odd port


def require_file_name(text: str) -> None:
    """Refuses what was meant to be the URL of a server: as a file it would be made, with a password in its name.

    Raises:
        QuestionError: as said; without the text.
    """
    if _LIKE_A_SERVER.match(text):
        raise QuestionError("what looks like a server is not a database URL, nor the name of a file", URL_HINT)


def without_passwords(text: str) -> str:
    """The text, passwords in the URLs in it blotted out."""
    whole = _WITH_BLANKS.sub(r"\1***@", _IN_AUTHORITY.sub(r"\1***@", text))
    for pattern in (_WITHOUT_HOST, _FOR_A_PORT, _IN_QUERY):
        whole = pattern.sub(r"\1***", whole)
    return whole


def require_url(url: str) -> None:
    """Refuses what is no URL of a database, whatever its kind.

    Raises:
        QuestionError: as said.
    """
    scheme, separator, rest = url.partition("://")
    try:
        url.encode()
        authority = urlsplit(f"//{rest}")
    except ValueError:  # not UTF-8, a bracket that is not closed
        raise malformed(url) from None
    try:
        _ = authority.port
    except ValueError:
        raise malformed(url, ": its port is not a number up to 65535") from None
    if not separator or not _SCHEME.fullmatch(scheme) or authority.netloc.count("@") > 1:
        raise malformed(url)


def malformed(url: str, reason: str = "") -> QuestionError:
    """The refusal of a text that is no URL, with what is wrong with it, if that is known."""
    scheme, separator, rest = without_passwords(re.sub(r"\s", "%20", url)).partition("://")
    shown = f"{scheme}://..." if _USER_ALONE.match(rest) else f"{scheme}{separator}{rest}"
    return QuestionError(f"{shown!r} is not a database URL{reason}", URL_HINT)
