"""The closed sets of words that a look-up is asked and answered in."""

from enum import StrEnum
from typing import TypeVar

from pega_tune.profiles.policy.errors import QuestionError


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


class Hint(StrEnum):
    """What is known of how ranges lie, beside their number and size."""

    NONE = "none"
    HOST_RUNS = "host-runs"
    """16 or more ranges per run that is adjacent on the host side."""
    HOST_ORDERED = "host-ordered"
    """One host run."""
    STRIDED = "strided"
    """One constant pitch."""


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
    FITTED = "fitted"
    """A curve through what was measured at other shapes."""
    NONE = "none"


class ProfileState(StrEnum):
    """Whether `Auto` may use a profile: it ignores all but published ones."""

    PUBLISHED = "published"
    DRAFT = "draft"
    PARTIAL = "partial"
    RETIRED = "retired"
    """It was published, and taken out of use by hand."""


W = TypeVar("W", bound=StrEnum)


def parse_word(kind: type[W], value: str) -> W:
    """The member of `kind` that `value` spells, or that it already is.

    Raises:
        QuestionError: no such word; the message lists those there are.
    """
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(kind)
        raise QuestionError(f"{kind.__name__.lower()} is one of {words}, not {value!r}") from None
