"""A bundle and its text. The JSON schema is in docs/bundle.md."""

import binascii
import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pega_tune.errors import PegaTuneError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.bundle import checks
from pega_tune.profiles.bundle.errors import BundleError
from pega_tune.profiles.bundle.facts import parse_facts
from pega_tune.profiles.bundle.keys import SigningKey, TrustedKey
from pega_tune.profiles.bundle.limits import require_plausible
from pega_tune.profiles.bundle.schema import CURRENT, Schema
from pega_tune.profiles.bundle.signature import Signature
from pega_tune.profiles.bundle.strict_json import canonical, parse
from pega_tune.profiles.policy.admissible import require_sms
from pega_tune.profiles.policy.compiled import decode, digest
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.policy.terms import ProfileState

MAX_POLICY_BYTES = 512 << 10
"""Most that the tables of one device take, encoded."""

MAX_REASONS = 1000

NOTICE = "SIMULATED: this profile is of a model, and answers for no real device"
"""What the text of a simulated profile says, for whoever reads it. Files from before it was written lack it."""

_LONGEST_MESSAGE = 300

_SEAL = "sha256"
_SIGNATURE = "signature"
"""The digest covers neither of the two, so that signing changes nothing else."""

_NOTICE = "notice"
_KEYS = (
    "schema",
    "profile_id",
    "sweep_id",
    "state",
    "reasons",
    "simulated",
    "created_at",
    "device",
    "kernel_digest",
    "method_version",
    "policy",
)


@dataclass(frozen=True, slots=True)
class Bundle:
    """One profile, ready to travel.

    Attributes:
        profile_id: its id.
        sweep_id: where it was learnt.
        state: published profiles alone are used.
        reasons: why it is not published; if it is, what it knows nothing of.
        created_at: aware, UTC.
        device: facts of the device it is for.
        kernel_digest, method_version: of its sweep.
        compiled: the tables, as `pega_tune.profiles.policy.compiled` writes them.
        policy: the same, decoded.
        signed_by: fingerprint of the key that its text says it is signed with; empty if it is not. It is true only if
            `read` was given that key.
    """

    profile_id: str
    sweep_id: str
    state: ProfileState
    reasons: tuple[str, ...]
    created_at: datetime
    device: DeviceFacts
    kernel_digest: str
    method_version: int
    compiled: bytes
    policy: CompiledPolicy
    signed_by: str = field(default="", compare=False)

    @property
    def stored(self) -> StoredProfile:
        """The profile as `Auto` takes it."""
        return StoredProfile(self.profile_id, self.device, self.state, self.created_at, self.kernel_digest, self.policy)


def to_document(bundle: Bundle, key: SigningKey | None = None) -> dict[str, Any]:
    """The bundle as a JSON object, with its digest and, if there is a key, its signature."""
    content = {
        "schema": CURRENT.version,
        "profile_id": bundle.profile_id,
        "sweep_id": bundle.sweep_id,
        "state": str(bundle.state),
        "reasons": list(bundle.reasons),
        "simulated": bundle.device.simulated,
        "created_at": checks.spell_moment(bundle.created_at),
        "device": bundle.device.to_json(),
        "kernel_digest": bundle.kernel_digest,
        "method_version": bundle.method_version,
        "policy": {"sha256": digest(bundle.compiled), "tables": b64encode(bundle.compiled).decode()},
    }
    if bundle.device.simulated:
        content[_NOTICE] = NOTICE
    text = _canonical(content)
    document = {**content, _SEAL: hashlib.sha256(text).hexdigest()}
    return document if key is None else {**document, _SIGNATURE: key.sign(text).to_json()}


def write(bundle: Bundle, key: SigningKey | None = None) -> bytes:
    """The text of the bundle, signed if there is a key: equal bundles give equal bytes.

    Raises:
        BundleError: it would be refused by `read`; the message says why.
    """
    text = _text(to_document(bundle, key))
    read(text)
    return text


def read(text: bytes, trusted: TrustedKey | None = None, schema: Schema = CURRENT) -> Bundle:
    """Inverse of `write`; checks everything.

    Args:
        text: of the bundle. Blanks between its values do not matter, but where `trusted` is given.
        trusted: a signature of this key is needed; without it one is not checked.
        schema: what is understood.

    Raises:
        BundleError: not a bundle, damaged, contradicting itself, of a newer schema, or not signed as it must be.
    """
    document = parse(text)
    schema.require_known(document)
    content = {name: value for name, value in document.items() if name not in (_SEAL, _SIGNATURE)}
    covered = _canonical(content)
    if _SEAL not in document:
        raise BundleError(f"the bundle lacks {_SEAL}")
    if document[_SEAL] != hashlib.sha256(covered).hexdigest():
        raise BundleError("it is damaged: the digest differs", "copy it again from where it was exported")
    signature = Signature.from_json(document[_SIGNATURE]) if _SIGNATURE in document else None
    if trusted is not None:
        _require_signature(signature, trusted, covered)
        if text != _text(document):
            raise BundleError("its blanks are not those that were signed", "copy it again from where it was exported")
    signed_by = "" if signature is None else signature.key
    return replace(_bundle(schema.converted(content)), signed_by=signed_by)


def _require_signature(signature: Signature | None, trusted: TrustedKey, covered: bytes) -> None:
    if signature is None:
        raise BundleError("it is not signed, and only what is can be trusted", "pega-tune export --sign KEY signs")
    if signature.key != trusted.fingerprint:
        raise BundleError(
            f"it is signed with another key than the trusted one: {signature.key[:16]}, not {trusted.fingerprint[:16]}",
            "name the public key of who signed it, if you trust them",
        )
    if not trusted.fits(signature, covered):
        raise BundleError("its signature is wrong: it was changed after it was signed", "do not use it")


def _bundle(content: Mapping[str, Any]) -> Bundle:
    noticed = _NOTICE in content
    members = checks.mapping("the bundle", content, (*_KEYS, _NOTICE) if noticed else _KEYS)
    device = parse_facts(members["device"])
    if members["simulated"] is not device.simulated or (noticed and not device.simulated):
        raise BundleError(f"it contradicts itself on whether {device.uuid} is simulated")
    if noticed and members[_NOTICE] != NOTICE:
        raise BundleError(f"the {_NOTICE} of a simulated profile is another: {NOTICE!r}")
    compiled = _compiled(members["policy"])
    return Bundle(
        profile_id=checks.identifier("profile_id", members["profile_id"]),
        sweep_id=checks.identifier("sweep_id", members["sweep_id"]),
        state=_state(members["state"]),
        reasons=_reasons(members["reasons"]),
        created_at=checks.moment("created_at", members["created_at"]),
        device=device,
        kernel_digest=checks.text("kernel_digest", members["kernel_digest"], 128),
        method_version=checks.whole("method_version", members["method_version"], 1, 1 << 30),
        compiled=compiled,
        policy=_policy(compiled, device),
    )


def _text(document: Mapping[str, Any]) -> bytes:
    return _canonical(document) + b"\n"


def _canonical(content: Mapping[str, Any]) -> bytes:
    try:
        return canonical(content)
    except ValueError:
        raise BundleError("it has text that is not Unicode") from None


def _state(value: Any) -> ProfileState:
    try:
        return ProfileState(value)
    except ValueError:
        raise BundleError(f"the state is one of {', '.join(ProfileState)}") from None


def _reasons(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_REASONS:
        raise BundleError(f"the reasons are at most {MAX_REASONS} texts")
    return tuple(checks.text("a reason", reason) for reason in value)


def _compiled(value: Any) -> bytes:
    policy = checks.mapping("the policy", value, ("sha256", "tables"))
    try:
        compiled = b64decode(policy["tables"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BundleError("the tables are not base64") from None
    if len(compiled) > MAX_POLICY_BYTES:
        raise BundleError(f"the tables take more than {MAX_POLICY_BYTES} bytes")
    if digest(compiled) != checks.sha256("the digest of the tables", policy["sha256"]):
        raise BundleError("the tables are damaged: their digest differs")
    return compiled


def _policy(compiled: bytes, device: DeviceFacts) -> CompiledPolicy:
    try:
        policy = decode(compiled)
        require_sms(policy, device)
    except PegaTuneError as error:
        # What is quoted in it comes from the file.
        words = "".join(sign if sign.isprintable() else "?" for sign in error.message)
        raise BundleError(words[:_LONGEST_MESSAGE], error.hint) from None
    require_plausible(policy)
    return policy
