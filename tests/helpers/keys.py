"""Pairs of Ed25519 keys in PEM files, as openssl writes them."""

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Where the two halves of a key are."""

    private: Path
    public: Path


def make_keys(folder: Path, name: str = "key", seed: int = 1) -> KeyFiles:
    """Writes the key pair of a seed, the same each time."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    files = KeyFiles(folder / f"{name}.pem", folder / f"{name}.pub.pem")
    files.private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files.public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return files
