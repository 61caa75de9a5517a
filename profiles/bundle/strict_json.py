"""The JSON that bundles are made of: read without mercy, as the file may come from anywhere, and written in one way."""

import json
from typing import Any

from pega_tune.profiles.bundle.errors import BundleError
from pega_tune.profiles.policy.strict_json import load

MAX_TEXT_BYTES = 1 << 20
"""Longest text that is read. The tables of a device take at most 512 KiB, which base64 makes a third longer."""

MAX_CONTAINERS = 256
"""Most objects and arrays, and with that the deepest nesting. A bundle has about a dozen, and a few in its texts."""

MAX_INTEGER = (1 << 53) - 1
"""Largest number that every reader of JSON takes for the same (RFC 8785, section 3.1)."""


def parse(text: bytes) -> Any:
    """The value of a JSON text without ambiguity: no key twice, no fractions, no numbers past `MAX_INTEGER`.

    Raises:
        BundleError: it is too long, too deep, or not such JSON.
    """
    if len(text) > MAX_TEXT_BYTES:
        raise BundleError(f"it is larger than {MAX_TEXT_BYTES} bytes")
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        raise BundleError("it is not UTF-8 text") from None
    if decoded.count("{") + decoded.count("[") > MAX_CONTAINERS:
        raise BundleError(f"it has more than {MAX_CONTAINERS} opening brackets")
    try:
        return load(decoded, parse_int=_whole, parse_float=_no_fraction, parse_constant=_no_fraction)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"it is not JSON: {error}") from None


def canonical(content: Any) -> bytes:
    """The one spelling of a value: that of RFC 8785, as there are no fractions and keys are ASCII.

    Raises:
        ValueError: it has a number that is not finite, or text that is not Unicode.
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def _whole(digits: str) -> int:
    # Measured by its length first: converting takes quadratic time.
    if len(digits) > 17 or abs(int(digits)) > MAX_INTEGER:
        raise BundleError(f"it has a number of {len(digits)} digits; the largest is {MAX_INTEGER}")
    return int(digits)


def _no_fraction(word: str) -> float:
    raise BundleError(f"it has the number {word[:20]}, and bundles hold whole numbers alone")
