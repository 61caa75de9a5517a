"""The closed sets of words that a look-up is asked and answered in."""

from enum import StrEnum


class Colocation(StrEnum):
    """Where decode runs beside the transfers."""

    IDLE = "idle"
    SAME_CONTEXT = "same-context"
    TIME_SLICED = "time-sliced"
    MPS = "mps"


class Objective(StrEnum):
    """What a look-up optimises."""

    THROUGHPUT = "throughput"
    BALANCED = "balanced"
    TAIL_BOUNDED = "tail-bounded"
    STRICT = "strict"


class Runtime(StrEnum):
    """Which plans the transfer engine that asks can run."""

    PEGAFLOW = "pegaflow"
    KERNEL_OPTIONS = "kernel-options"
    FULL = "full"


class Tier(StrEnum):
    """How closely the profile behind an answer fits the device, best first."""

    BOARD = "board"
    CLASS = "class"
    FAMILY = "family"
    BUNDLED = "bundled"
    RULE = "rule"


class Evidence(StrEnum):
    """What the answer's claim about decode rests on."""

    MEASURED = "measured"
    NONE = "none"


class ProfileState(StrEnum):
    """Whether `Auto` may use a profile: it ignores all but published ones."""

    PUBLISHED = "published"
    DRAFT = "draft"
    PARTIAL = "partial"
