"""Profiles as a Python module."""

import json
from collections.abc import Iterable

from pega_tune.profiles.emit.listing import ListedProfile, Listing
from pega_tune.profiles.emit.parts import constants, fill_in, heading, words
from pega_tune.profiles.emit.text import flat, joined


def emit_python(listing: Listing) -> str:
    """One file: the look-up, and the profiles as text that it parses when it is imported."""
    names = [f"{name}: Final = {value!r}" for name, value in constants()]
    names += [f"{name}S: Final[Sequence[str]] = {tuple(members)!r}" for name, members in words()]
    profiles = "".join(f"    {_profile(each)!a},\n" for each in listing.profiles)
    arrays = [_array(name, values) for name, values in _arrays(listing)]
    data = "\n".join([*names, "_PROFILES: Final[Sequence[str]] = (", profiles + ")", *arrays, ""])
    head = "".join(f"# {line}\n" for line in heading(listing))
    return head + fill_in("lookup.py", DATA=data)


def _arrays(listing: Listing) -> Iterable[tuple[str, Iterable[float]]]:
    vectors = listing.vectors
    return (
        ("PLANS", flat(listing.plans)),
        ("OPTIONS", flat(listing.options)),
        ("COSTS", flat(listing.costs)),
        ("ENTRIES", listing.entries),
        ("CELLS", listing.cells),
        ("EDGES", listing.edges),
        ("CENTRES", listing.centres),
        ("TABLES", flat((*row[:4], 0, *row[5:7], 0, *row[8:]) for row in listing.tables)),
        ("NOISE", flat(listing.noise)),
        ("ROUTES", flat(listing.routes)),
        ("RULE", listing.rule),
        ("QUESTIONS", flat(vectors.questions)),
        ("TERMS", flat(vectors.terms)),
        ("VECTORS", flat(vectors.shapes)),
    )


def _array(name: str, values: Iterable[float]) -> str:
    return f'_{name} = """\n{joined(map(repr, values), " ")}\n"""'


def _profile(profile: ListedProfile) -> str:
    return json.dumps(
        {
            "profile_id": profile.profile_id,
            "created_at": profile.created_at,
            "published": profile.published,
            "device": {key: profile.device.to_json()[key] for key in ("uuid", "identity")},
        }
    )
