"""Ed25519 keys in PEM files. The package `cryptography` is loaded when a key is read, and by nothing else here."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pega_tune.errors import DataError, DeviceError
from pega_tune.profiles.bundle.signature import Signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_MAX_FILE_BYTES = 1 << 16
_MAKE_PRIVATE = "openssl genpkey -algorithm ed25519 -out KEY makes one"
_MAKE_PUBLIC = "openssl pkey -in KEY -pubout -out PUBKEY takes it from a private key"


class KeyFileError(DataError):
    """A file holds no key that can be used here."""

    code = "bad-key"


class CryptographyMissingError(DeviceError):
    """The package that signatures need is not installed."""

    code: ClassVar[str] = "cryptography-missing"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key.

    Attributes:
        fingerprint: SHA-256 of the 32 bytes of its public key, in hex.
    """

    fingerprint: str
    _key: Ed25519PrivateKey = field(repr=False)

    def sign(self, content: bytes) -> Signature:
        """The signature of some bytes, which is always the same one."""
        return Signature(self.fingerprint, self._key.sign(content))


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key, of somebody whose profiles are taken.

    Attributes:
        fingerprint: SHA-256 of its 32 bytes, in hex.
    """

    fingerprint: str
    _key: Ed25519PublicKey = field(repr=False)

    def fits(self, signature: Signature, content: bytes) -> bool:
        """Whether the signature was made with the private half of this key, of these bytes."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature.value, content)
        except InvalidSignature:
            return False
        return True


def read_signing_key(path: Path) -> SigningKey:
    """A private key from a PEM file (PKCS #8, RFC 8410) without a passphrase.

    Raises:
        KeyFileError: it cannot be read, or holds something else.
        CryptographyMissingError: the package `cryptography` is not installed.
    """
    text = _content(path)
    _require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(text, password=None)
    except TypeError:
        raise KeyFileError(
            f"the key in {path} has a passphrase", "openssl pkey -in KEY -out PLAIN writes it without one"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise KeyFileError(f"{path} holds no private key in PEM", _MAKE_PRIVATE) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"the key in {path} is not of Ed25519", _MAKE_PRIVATE)
    return SigningKey(_fingerprint(key.public_key()), key)


def read_trusted_key(path: Path) -> TrustedKey:
    """A public key from a PEM file (SubjectPublicKeyInfo, RFC 8410).

    Raises:
        KeyFileError: it cannot be read, or holds something else.
        CryptographyMissingError: the package `cryptography` is not installed.
    """
    text = _content(path)
    _require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        raise KeyFileError(f"{path} holds no public key in PEM", _MAKE_PUBLIC) from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError(f"the key in {path} is not of Ed25519", _MAKE_PRIVATE)
    return TrustedKey(_fingerprint(key), key)


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise CryptographyMissingError(
            "signatures need the package cryptography", "pip install 'pega-tune[sign]'"
        ) from None


def _fingerprint(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise KeyFileError(f"the key {path} cannot be read: {reason}", "name another file") from None
    if len(text) > _MAX_FILE_BYTES:
        raise KeyFileError(f"{path} is too long for a key", "name another file")
    return text
