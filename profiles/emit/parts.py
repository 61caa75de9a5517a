"""What the files in all languages have in common: a heading, words and constants, and a look-up to put data into."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from pega_tune.kernels.plan import Backend, Completion, Variant
from pega_tune.kernels.shape import MAX_BYTES, Direction
from pega_tune.profiles.emit.listing import Listing
from pega_tune.profiles.emit.text import remark
from pega_tune.profiles.policy.choose import DEFAULT_BUDGET, DEFAULT_PERIOD_S, MAX_ITL_COST
from pega_tune.profiles.policy.question import RANGES_PER_RUN
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint, Objective, Runtime

_FOLDER = Path(__file__).parent / "templates"


def fill_in(file: str, **sections: str) -> str:
    """A look-up, as it stands in a file of this package, with text in place of what stands between two of its lines.

    Args:
        file: its name.
        sections: by name, the text from the line with `@NAME` to the next one with `@END`.
    """
    lines = iter((_FOLDER / file).read_text(encoding="utf-8").splitlines(keepends=True))
    kept = []
    for line in lines:
        found = [text for name, text in sections.items() if line.strip(" /*#\n") == f"@{name}"]
        kept += found or [line]
        while found and "@END" not in next(lines):
            pass
    return "".join(kept)


def heading(listing: Listing) -> Iterator[str]:
    """What a reader of the file has to know first, as lines that are safe in a comment."""
    yield "Written by pega-tune export from measurements; write it again rather than change it."
    for profile in listing.profiles:
        device = profile.device
        marks = "SIMULATED, " * device.simulated + "DRAFT, " * (not profile.published)
        name = remark(f"{device.provenance.name} ({device.uuid})")
        yield f"{marks}profile {remark(profile.profile_id)} of {name}, {remark(profile.created_at)}"


def constants() -> tuple[tuple[str, float], ...]:
    """The numbers of the policy, by name."""
    return (
        ("DEFAULT_BUDGET", DEFAULT_BUDGET),
        ("DEFAULT_PERIOD_S", DEFAULT_PERIOD_S),
        ("MAX_BYTES", MAX_BYTES),
        ("MAX_ITL_COST", MAX_ITL_COST),
        ("RANGES_PER_RUN", RANGES_PER_RUN),
    )


def words() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The words of each enumeration, in its order, by the name of one."""
    kinds: tuple[tuple[str, type[StrEnum]], ...] = (
        ("BACKEND", Backend),
        ("VARIANT", Variant),
        ("COMPLETION", Completion),
        ("DIRECTION", Direction),
        ("OBJECTIVE", Objective),
        ("COLOCATION", Colocation),
        ("RUNTIME", Runtime),
        ("HINT", Hint),
        ("EVIDENCE", Evidence),
    )
    return tuple((name, tuple(str(word) for word in kind)) for name, kind in kinds)
