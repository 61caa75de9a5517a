"""The signature of a bundle: what it looks like in the text. `keys` makes and checks it."""

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from pega_tune.profiles.bundle import checks
from pega_tune.profiles.bundle.errors import BundleError

ALGORITHM = "ed25519"

_VALUE_BYTES = 64
"""RFC 8032, section 5.1.6."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Ed25519 (RFC 8032) over the canonical form of a bundle without its digest and its signature.

    Attributes:
        key: SHA-256 of the 32 bytes of the public key, in hex: tells keys apart, and proves nothing.
        value: 64 bytes.
    """

    key: str
    value: bytes

    def to_json(self) -> dict[str, str]:
        """The member `signature` of a bundle."""
        return {"algorithm": ALGORITHM, "key": self.key, "value": b64encode(self.value).decode()}

    @classmethod
    def from_json(cls, data: Any) -> "Signature":
        """Inverse of `to_json`; whether it fits the bundle is not checked here.

        Raises:
            BundleError: it is no such signature.
        """
        members = checks.mapping("the signature", data, ("algorithm", "key", "value"))
        if members["algorithm"] != ALGORITHM:
            raise BundleError(f"the signature is not of the algorithm {ALGORITHM}", "install a newer pega-tune")
        return cls(checks.sha256("the key of the signature", members["key"]), _value(members["value"]))


def _value(text: Any) -> bytes:
    try:
        value = b64decode(text, validate=True)
    except (TypeError, ValueError):
        value = b""
    # Base64 of this length has four bits that mean nothing; a signature has one spelling.
    if len(value) != _VALUE_BYTES or b64encode(value).decode() != text:
        raise BundleError(f"the signature is not {_VALUE_BYTES} bytes in base64")
    return value
