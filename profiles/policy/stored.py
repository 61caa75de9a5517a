"""A profile as a serving process sees it."""

from dataclasses import dataclass
from datetime import datetime

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.policy.terms import ProfileState, Tier


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """What was learnt on one device, ready to be asked.

    Attributes:
        profile_id: short unique id.
        device: facts of the device it was learnt on.
        state: published, unless drafts were asked for.
        created_at: aware, UTC.
        kernel_digest: identifies the copy kernels that were measured.
        policy: its tables.
    """

    profile_id: str
    device: DeviceFacts
    state: ProfileState
    created_at: datetime
    kernel_digest: str
    policy: CompiledPolicy


@dataclass(frozen=True, slots=True)
class Standing:
    """What whoever follows a database compares: of the same profile, too, a later check may change it.

    Attributes:
        profile_id: of the profile.
        tier: how closely it fits.
        warnings: why it is suspect; a sentence each.
    """

    profile_id: str
    tier: Tier
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of looking for a profile.

    Attributes:
        profile: the one that fits best; None if none fits.
        tier: how closely it fits; `rule` without a profile.
        warnings: why it is suspect, and which better ones were skipped; a sentence each.
        unused: where none is used, which one would fit but is not published, and how to go on; else empty.
        standing: of a profile that is in a database; None for every other.
    """

    profile: StoredProfile | None
    tier: Tier
    warnings: tuple[str, ...] = ()
    unused: str = ""
    standing: Standing | None = None

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The warnings, and what is not used."""
        return (*self.warnings, *filter(None, (self.unused,)))
