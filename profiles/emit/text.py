"""Numbers, words and remarks as text that is safe in every language."""

import re
from collections.abc import Iterable

WIDTH = 118

_UNSAFE = re.compile(r"[^A-Za-z0-9 .,:@()+-]")


def joined(entries: Iterable[str], separator: str = ", ") -> str:
    """Lines of entries, each as full as it can be."""
    lines: list[str] = []
    line: list[str] = []
    width = 0
    for entry in entries:
        if line and width + len(entry) > WIDTH:
            lines.append(separator.join(line))
            line, width = [], 0
        line.append(entry)
        width += len(entry) + len(separator)
    lines.append(separator.join(line))
    return f"{separator.rstrip()}\n".join(lines)


def remark(text: str) -> str:
    """Text that ends no comment, and begins none: what could is `_`."""
    return _UNSAFE.sub("_", text)


def flat(rows: Iterable[Iterable[float]]) -> Iterable[float]:
    """The numbers of all rows, one after the other."""
    return (value for row in rows for value in row)
