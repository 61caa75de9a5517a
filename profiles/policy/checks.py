"""What a later check of a profile found, as run-time readers read it: whether it holds, and on what."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from pega_tune.kernels.facts import DeviceFacts, Staleness, stale_fields, staleness_from_json

HOLDS = "holds"
DRIFTED = "drifted"


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        board: UUID of the device that was looked at.
        staleness: what may drift, as it was then.
        verdict: `holds` or `drifted`.
        host: where the device was then, by its name; empty if it is not known.
    """

    board: str
    staleness: Staleness
    verdict: str
    host: str = ""

    def to_json(self) -> str:
        """What is stored beside the verdict: canonical JSON."""
        content = {"board": self.board, "host": self.host, "staleness": asdict(self.staleness)}
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, verdict: str, text: str) -> "Check":
        """Inverse of `to_json`.

        Raises:
            ValueError, KeyError, TypeError: the text holds no check.
        """
        content = json.loads(text)
        staleness = staleness_from_json(content["staleness"])
        return cls(str(content["board"]), staleness, verdict, str(content.get("host", "")))  # of older ones not known


def latest(checks: Iterable[Check], device: DeviceFacts) -> Check | None:
    """The last one of this device, of checks in the order made; None without one."""
    found = None
    for check in checks:
        if check.board == device.uuid:
            found = check
    return found


def changed_since(profile: DeviceFacts, device: DeviceFacts, check: Check | None) -> tuple[str, ...]:
    """Names of the staleness fields that have changed since a profile was measured, or was last found to hold."""
    stale = stale_fields(profile.staleness, device.staleness)
    if stale and check is not None and check.verdict == HOLDS:
        return stale_fields(check.staleness, device.staleness)
    return stale
