"""Profiles as a C header."""

import string
from collections.abc import Iterable, Iterator

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.emit.listing import NO_EDGE, ListedProfile, Listing
from pega_tune.profiles.emit.parts import constants, fill_in, heading, words
from pega_tune.profiles.emit.text import joined

_PLAIN = frozenset((string.ascii_letters + string.digits + string.punctuation + " ").encode()) - frozenset(b'"\\?')


def emit_c(listing: Listing) -> str:
    """One header: types, the profiles as arrays, and the look-up."""
    head = "".join(f"/* {line} */\n" for line in heading(listing))
    data = (*_profiles(listing), *_arrays(listing), *_tests(listing))
    return head + fill_in("lookup.h", WORDS="\n\n".join(_enumerations()) + "\n", DATA="\n\n".join(data) + "\n")


def _enumerations() -> Iterator[str]:
    for name, members in words():
        entries = [f"PEGA_TUNE_{name}_{member.upper().replace('-', '_')}" for member in members]
        if name == "VARIANT":
            entries.insert(0, f"PEGA_TUNE_{name}_NONE = -1")
            entries[1] += " = 0"
        if name == "COLOCATION":
            entries.insert(0, f"PEGA_TUNE_{name}_UNASKED = -1")
            entries[1] += " = 0"
        yield f"typedef enum {{\n{joined(entries)}\n}} pega_tune_{name.lower()};"
    counts = [f"PEGA_TUNE_{name}S_ = {len(members)}" for name, members in words()]
    yield f"enum {{\n{joined(counts)}\n}};"


def _profiles(listing: Listing) -> Iterator[str]:
    defined = [f"#define PEGA_TUNE_{name} {_number(value)}" for name, value in constants()]
    yield "\n".join((*defined, f"#define PEGA_TUNE_MOST_CELLS_ {listing.most_cells}"))
    yield _array("pega_tune_profile pega_tune_profiles[]", map(_profile, listing.profiles))


def _profile(profile: ListedProfile) -> str:
    flags = f"{_flag(profile.published)}, {_flag(profile.device.simulated)}"
    return f"{{{text(profile.profile_id)}, {text(profile.created_at)}, {flags}, {facts(profile.device)}}}"


def facts(device: DeviceFacts) -> str:
    """The facts of a device as the value of a constant."""
    identity = device.identity
    link = identity.max_link
    major, minor = identity.compute_capability
    values = (
        text(device.uuid),
        f"{{{major}, {minor}}}",
        str(identity.sm_count),
        str(identity.memory_gib),
        str(identity.copy_engines),
        text(identity.mig_slice),
        text(identity.pci_device_id),
        text(identity.pci_subsystem_id),
        f"{{{link.generation}, {link.width}}}" if link else "{0, 0}",
        text(identity.host_cpu),
        *(str(-1 if value is None else int(value)) for value in (identity.numa_distance, identity.iommu)),
        str(-1 if identity.confidential is None else int(identity.confidential)),
    )
    return f"{{{', '.join(values)}}}"


def _arrays(listing: Listing) -> Iterator[str]:
    plans = ((*row[:3], (row[3], row[4]), *row[5:]) for row in listing.plans)
    yield _array("pega_tune_copy_plan pega_tune_plans[]", map(_row, plans))
    options = ((costs, burden, *row) for costs, (*row, burden) in zip(listing.costs, listing.options, strict=True))
    yield _array("pega_tune_option_ pega_tune_options[]", map(_row, options))
    for name, values in (("entries", listing.entries), ("cells", listing.cells), ("rule", listing.rule)):
        yield _array(f"uint32_t pega_tune_{name}[]", map(_number, values or (0,)))
    for name, values in (("edges", listing.edges), ("centres", listing.centres)):
        yield _array(f"uint64_t pega_tune_{name}[]", map(_number, values))
    yield _array("uint16_t pega_tune_buckets[]", map(_number, listing.buckets))
    tables = ((*row[:9], row[9:], *noise) for row, noise in zip(listing.tables, listing.noise, strict=True))
    yield _array("pega_tune_table_ pega_tune_tables[]", map(_row, tables))
    yield _array("int32_t pega_tune_routes[][PEGA_TUNE_HINTS_]", map(_row, listing.routes))


def _tests(listing: Listing) -> Iterator[str]:
    vectors = listing.vectors
    yield "#ifdef PEGA_TUNE_SELF_TEST"
    yield _array("int pega_tune_test_questions[][5]", map(_row, vectors.questions))
    yield _array("double pega_tune_test_terms[][3]", map(_row, vectors.terms))
    yield _array("uint64_t pega_tune_test_vectors[][10]", map(_row, vectors.shapes))
    yield "#endif"


def _array(declared: str, entries: Iterable[str]) -> str:
    return f"static const {declared} = {{\n{joined(entries)}\n}};"


def _row(values: Iterable[object]) -> str:
    return f"{{{', '.join(_row(value) if isinstance(value, tuple) else _number(value) for value in values)}}}"


def _number(value: object) -> str:
    return "UINT64_MAX" if value == NO_EDGE else repr(value)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def text(value: str | None) -> str:
    """A string literal of the UTF-8 of a text; what is not plain is escaped, trigraphs and line breaks too."""
    if value is None:
        return "NULL"
    # Three octal digits end by themselves, whatever follows.
    return '"' + "".join(chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in value.encode()) + '"'
