"""Bundles with something wrong in them: cut, with flipped bits, or with wrong content under digests that are right."""

import json
import random
import zlib
from base64 import b64decode
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from tests.helpers.bundles import sealed, with_tables

STEERING = ("[bold red]x[/]", "[link=http://x]y[/link]", "\x1b[31mx", "\x1b]0;x\x07", "\u202ex", "a\nb")
PATHS = ("../../../etc/passwd", "/etc/passwd", "a/../b", "..", "C:\\x", "*", "~")
ODD = (
    None,
    True,
    False,
    0,
    -1,
    1,
    99,
    1 << 31,
    (1 << 53) - 1,
    1 << 53,
    10**400,
    0.5,
    float("nan"),
    float("inf"),
    "",
    " ",
    "\x00",
    "\ud800",
    "é" * 40,
    "x" * 5000,
    [],
    {},
    [[[[[[[]]]]]]],
    {"a": {"b": {"c": 1}}},
    "sim:h200",
    "9999-12-31T23:59:59.999999+00:00",
    *STEERING,
    *PATHS,
)


def mutants(texts: tuple[bytes, ...], count: int, seed: int) -> Iterator[bytes]:
    """Damaged bundles: the first text cut at every byte, then flipped bits and wrong content in turn.

    Args:
        texts: sound bundles.
        count: how many, at least one for each byte of the first text.
        seed: of all choices.
    """
    small = texts[0]
    if count < len(small):
        raise ValueError(f"cutting at every byte takes {len(small)} mutants")
    yield from (small[:length] for length in range(len(small)))
    choose = random.Random(seed)
    for number in range(count - len(small)):
        text = choose.choice(texts)
        yield flipped(choose, text) if number % 2 else rewritten(choose, text)


def flipped(choose: random.Random, text: bytes) -> bytes:
    """One to eight bits the other way round."""
    changed = bytearray(text)
    for _ in range(choose.choice((1, 1, 1, 2, 4, 8))):
        changed[choose.randrange(len(changed))] ^= 1 << choose.randrange(8)
    return bytes(changed)


def rewritten(choose: random.Random, text: bytes) -> bytes:
    """Content that makes no sense, most of it with digests that a forger computed."""
    document = json.loads(text)
    if choose.random() < 0.5:  # one that no database has, so that nothing but its content can be refused
        document |= {"profile_id": f"{choose.getrandbits(48):x}", "sweep_id": f"{choose.getrandbits(48):x}"}
    kind = choose.randrange(6)
    if kind == 0:
        return _twice(choose, document)
    if kind <= 2:
        return sealed(with_tables(document, _tables(choose, b64decode(document["policy"]["tables"]))))
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        _damage(choose, document)
    if kind == 3 and choose.random() < 0.5:
        return _dumped(document)
    return sealed(document)


def _twice(choose: random.Random, document: dict[str, Any]) -> bytes:
    """A key that is there twice, or text around what is sound."""
    text = _dumped(document)
    name = choose.choice(list(document)).encode()
    again = b'"%s":%s,' % (name, choose.choice((b"1", b"null", b'"x"', b"[[[[", b"1e9999", b"-0")))
    place = text.index(b'"%s":' % name)
    around = choose.choice((b"", b"", b" ", b"{", b"\x00", b"\xff", b"//", b"[" * 300))
    return around + text[:place] + again + text[place:]


def _tables(choose: random.Random, blob: bytes) -> bytes:
    """Tables that are damaged before or after they are packed."""
    content = zlib.decompress(blob)
    kind = choose.randrange(8)
    if kind == 0:
        return flipped(choose, blob)
    if kind == 1:
        return blob[: choose.randrange(len(blob))]
    if kind == 2:
        return blob + choose.choice((b"x", blob, b"\x00" * 1000))
    if kind == 3:
        return zlib.compress(flipped(choose, content))
    document = json.loads(content)
    for _ in range(choose.choice((1, 1, 2, 3))):
        _damage(choose, document)
    return zlib.compress(_dumped(document))


def _damage(choose: random.Random, document: dict[str, Any]) -> None:
    """One value gone, changed, moved, or too many, anywhere inside."""
    inner, key = choose.choice(list(_places(document)) or [(document, "schema")])
    kind = choose.randrange(6)
    if kind == 0:
        del inner[key]
    elif kind == 1:
        inner[key] = _near(choose, inner[key])
    elif kind == 2:
        other, there = choose.choice(list(_places(document)))
        inner[key] = json.loads(_dumped(other[there]))
    elif kind == 3 and isinstance(inner, list):
        inner.insert(key, json.loads(_dumped(inner[key])))
    elif kind == 3:
        inner[choose.choice(("more", "", "schema", *STEERING))] = deepcopy(choose.choice(ODD))
    else:
        inner[key] = deepcopy(choose.choice(ODD))  # which later damage may change


def _near(choose: random.Random, value: Any) -> Any:
    """Something like the value, which often passes for it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + choose.choice((-1, 1, 2, -value, value))
    if isinstance(value, str) and value:
        place = choose.randrange(len(value))
        return value[:place] + choose.choice("0aZ-_/ [\x1b") + value[place + 1 :]
    if isinstance(value, list):
        return value[::-1] if choose.random() < 0.5 else value[:-1]
    return [value]


def _places(inner: Any) -> Iterator[tuple[Any, Any]]:
    items = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
    for key, value in list(items):
        yield inner, key
        yield from _places(value)


def _dumped(content: Any) -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")
