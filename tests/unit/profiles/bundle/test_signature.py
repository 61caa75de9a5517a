"""Signed bundles: what is accepted where a key is trusted, and what is not."""

import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from pega_tune.profiles.bundle.document import read, to_document, write
from pega_tune.profiles.bundle.errors import BundleError
from pega_tune.profiles.bundle.files import read_bundle, write_bundle
from pega_tune.profiles.bundle.keys import (
    KeyFileError,
    SigningKey,
    TrustedKey,
    read_signing_key,
    read_trusted_key,
)
from pega_tune.profiles.bundle.schema import Schema
from tests.helpers.bundles import bundle, sealed
from tests.helpers.keys import KeyFiles, make_keys

ROOT = Path(__file__).parents[4]


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    return make_keys(tmp_path)


@pytest.fixture
def signing(files: KeyFiles) -> SigningKey:
    return read_signing_key(files.private)


@pytest.fixture
def trusted(files: KeyFiles) -> TrustedKey:
    return read_trusted_key(files.public)


@pytest.fixture
def stranger(tmp_path: Path) -> TrustedKey:
    return read_trusted_key(make_keys(tmp_path, "other", seed=2).public)


def refusal(text: bytes, trusted: TrustedKey | None) -> str:
    with pytest.raises(BundleError) as caught:
        read(text, trusted)
    return caught.value.message


def signature_of(text: bytes) -> dict[str, Any]:
    return json.loads(text)["signature"]


def test_what_was_signed_is_accepted_and_says_by_whom(signing, trusted):
    text = write(bundle(), signing)
    assert read(text, trusted) == bundle()
    assert read(text, trusted).signed_by == signing.fingerprint == trusted.fingerprint
    assert write(bundle(), signing) == text


def test_signing_adds_a_member_and_changes_nothing_else(signing):
    plain, signed = to_document(bundle()), to_document(bundle(), signing)
    assert signed.pop("signature")["algorithm"] == "ed25519"
    assert signed == plain


def test_without_a_trusted_key_a_signature_is_read_and_not_checked(signing):
    text = write(bundle(), signing)
    assert read(text) == bundle()
    other = json.loads(text)
    other["signature"] = {**other["signature"], "value": base64.b64encode(bytes(64)).decode()}
    assert read(json.dumps(other).encode()) == bundle()
    assert read(write(bundle())).signed_by == ""


def test_any_byte_that_is_changed_is_refused_where_a_key_is_trusted(signing, trusted):
    text = write(bundle(), signing)
    for position in range(len(text)):
        for byte in {text[position] ^ 1, text[position] ^ 128, 0x20, 0x09, 0x30} - {text[position]}:
            assert refusal(text[:position] + bytes([byte]) + text[position + 1 :], trusted)


def test_a_byte_more_or_less_is_refused_where_a_key_is_trusted(signing, trusted):
    text = write(bundle(), signing)
    for other in (text[:-1], text + b"\n", b" " + text, b"\n" + text, text.replace(b",", b", ", 1)):
        assert refusal(other, trusted)
        assert read(other) == bundle()


def test_what_a_forger_seals_anew_is_refused(signing, trusted):
    document = {**json.loads(write(bundle(), signing)), "state": "draft"}
    text = json.dumps(json.loads(sealed(document)), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert "changed after it was signed" in refusal(text + b"\n", trusted)


def test_the_signature_of_another_bundle_is_refused(signing, trusted):
    document = to_document(bundle())
    other = signature_of(write(bundle(method_version=4), signing))
    assert "changed after it was signed" in refusal(json.dumps({**document, "signature": other}).encode(), trusted)


def test_another_key_is_refused_even_if_it_takes_the_name_of_the_trusted_one(signing, trusted, stranger):
    text = write(bundle(), signing)
    assert "another key" in refusal(text, stranger)
    document = json.loads(text)
    document["signature"]["key"] = stranger.fingerprint
    assert "changed after it was signed" in refusal(json.dumps(document).encode(), stranger)


def test_no_signature_is_refused_where_a_key_is_trusted(trusted):
    assert "not signed" in refusal(write(bundle()), trusted)
    assert "null" not in refusal(json.dumps({**to_document(bundle()), "signature": None}).encode(), trusted)


def damaged(signature: dict[str, Any]) -> list[Any]:
    value = signature["value"]
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".index(value[85])
    neighbour = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[last ^ 1]
    return [
        None,
        [],
        {},
        "x",
        {**signature, "more": 1},
        {**signature, "algorithm": "none"},
        {**signature, "algorithm": ["ed25519"]},
        {**signature, "key": "AB" * 32},
        {**signature, "key": 5},
        {**signature, "value": None},
        {**signature, "value": ""},
        {**signature, "value": value[:-4]},
        {**signature, "value": value + "AAAA"},
        {**signature, "value": value[:-2]},
        {**signature, "value": value[:85] + neighbour + "=="},  # the same 64 bytes
        {**signature, "value": "é" * 88},
        {key: value for key, value in signature.items() if key != "value"},
    ]


def test_what_is_no_signature_is_refused_with_and_without_a_trusted_key(signing, trusted):
    text = write(bundle(), signing)
    for signature in damaged(signature_of(text)):
        changed = json.dumps({**json.loads(text), "signature": signature}).encode()
        assert refusal(changed, trusted)
        assert refusal(changed, None)


def test_an_older_bundle_is_checked_as_it_was_signed(signing, trusted):
    second = Schema(2, {1: lambda content: {**content, "method_version": 99}})
    text = write(bundle(), signing)
    assert read(text, trusted, second) == bundle(method_version=99)
    document = {**json.loads(text), "kernel_digest": "j" * 64}
    with pytest.raises(BundleError, match="changed after it was signed"):
        read(sealed(document), trusted, second)


def test_files_are_signed_and_checked(signing, trusted, stranger, tmp_path):
    path = tmp_path / "profile.json"
    write_bundle(bundle(), path, signing)
    assert read_bundle(path, trusted) == bundle()
    with pytest.raises(BundleError) as caught:
        read_bundle(path, stranger)
    assert str(path) in caught.value.message


# The examples of RFC 8410, section 10, which openssl writes in the same form.
EXAMPLE_PRIVATE = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
"""
EXAMPLE_PUBLIC = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
"""


def test_keys_in_standard_pem_are_read_and_belong_together(tmp_path):
    private, public = tmp_path / "key.pem", tmp_path / "key.pub.pem"
    private.write_text(EXAMPLE_PRIVATE)
    public.write_text(EXAMPLE_PUBLIC)
    trusted = read_trusted_key(public)
    assert read(write(bundle(), read_signing_key(private)), trusted) == bundle()
    raw = base64.b64decode(EXAMPLE_PUBLIC.splitlines()[1])[-32:]
    assert trusted.fingerprint == hashlib.sha256(raw).hexdigest()


def private_pem(key: Any, passphrase: bytes = b"") -> bytes:
    how = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)


def public_pem(key: Any) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


ED25519, CURVE = Ed25519PrivateKey.from_private_bytes(bytes(32)), generate_private_key(SECP256R1())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no private key"),
        (b"\xff" * 100, "no private key"),
        (public_pem(ED25519), "no private key"),
        (private_pem(ED25519)[:60], "no private key"),
        (private_pem(ED25519, b"secret"), "passphrase"),
        (private_pem(CURVE), "not of Ed25519"),
        (b"x" * 100_000, "too long"),
    ],
)
def test_what_is_no_private_key_is_refused_without_quoting_it(tmp_path, content, words):
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    with pytest.raises(KeyFileError, match=words) as caught:
        read_signing_key(path)
    assert "BEGIN" not in caught.value.message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no public key"),
        (private_pem(ED25519), "no public key"),
        (public_pem(CURVE), "not of Ed25519"),
        (b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA==", "no public key"),
    ],
)
def test_what_is_no_public_key_is_refused(tmp_path, content, words):
    path = tmp_path / "key.pub.pem"
    path.write_bytes(content)
    with pytest.raises(KeyFileError, match=words):
        read_trusted_key(path)


@pytest.mark.parametrize("read_key", [read_signing_key, read_trusted_key])
@pytest.mark.parametrize("place", ["absent.pem", ".", "a\0b"])
def test_a_key_that_is_not_there_is_refused(tmp_path, read_key, place):
    with pytest.raises(KeyFileError, match="cannot be read"):
        read_key(tmp_path / place)


def test_a_private_key_is_not_shown(signing):
    assert repr(signing) == f"SigningKey(fingerprint={signing.fingerprint!r})"


WITHOUT = """
import sys
sys.modules["cryptography"] = None
from pathlib import Path
from pega_tune.errors import DeviceError
from pega_tune.profiles.bundle.files import read_bundle
from pega_tune.profiles.bundle.keys import CryptographyMissingError, read_signing_key, read_trusted_key
print(read_bundle(Path(sys.argv[1])).signed_by)
for read, path in ((read_signing_key, sys.argv[2]), (read_trusted_key, sys.argv[3])):
    try:
        read(Path(path))
    except CryptographyMissingError as error:
        print(isinstance(error, DeviceError), error.hint)
"""


def test_without_cryptography_bundles_are_read_and_keys_say_what_to_install(files, signing, tmp_path):
    path = tmp_path / "profile.json"
    write_bundle(bundle(), path, signing)
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{WITHOUT}"
    command = [sys.executable, "-c", program, str(path), str(files.private), str(files.public)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    hint = "True pip install 'pega-tune[sign]'"
    assert done.stdout.splitlines() == [signing.fingerprint, hint, hint]
