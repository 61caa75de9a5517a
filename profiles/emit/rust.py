"""Profiles as a Rust module."""

import string
from collections.abc import Iterable, Iterator

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.emit.listing import NO_EDGE, Ints, ListedProfile, Listing
from pega_tune.profiles.emit.parts import constants, fill_in, heading, words
from pega_tune.profiles.emit.text import joined

_PLAIN = frozenset(string.ascii_letters + string.digits + string.punctuation + " ") - frozenset('"\\')
_COUNTS = ("COLOCATION", "DIRECTION", "HINT", "RUNTIME")
_WORDS = dict(words())
_TESTS = """\
/// Answers to check the file with.
#[cfg(test)]
mod tests {
    use super::*;

"""
_CHECK = """
    #[test]
    fn vectors_are_answered_as_they_were_when_the_file_was_written() {
        for &[question, ranges, bytes, runs, pitch, option, covered, met, colocation, hint] in &VECTORS {
            let (profile, question) = &QUESTIONS[question as usize];
            let known = |value: u64| if value == 0 { None } else { Some(value) };
            let shape = Shape { host_runs: known(runs), pitch: known(pitch), ..Shape::new(ranges, bytes) };
            let found = PROFILES[*profile].policy(question).unwrap().decide(&shape).unwrap();
            let [load, save, fused, ..] = OPTIONS[option as usize];
            let [time_s, stall_s, _, completion_p99_s] = COSTS[option as usize];
            let given = |cost: f64| if covered == 1 && cost >= 0.0 { Some(cost) } else { None };
            let (time_s, stall_s, completion_p99_s) = (given(time_s), given(stall_s), given(completion_p99_s));
            assert!(found.load.map_or(true, |plan| *plan == PLANS[usize::from(load)]), "{:?}", shape);
            assert!(found.save.map_or(true, |plan| *plan == PLANS[usize::from(save)]), "{:?}", shape);
            assert_eq!(found.predicted, Predicted { time_s, stall_s, completion_p99_s }, "{:?}", shape);
            assert_eq!(found.fused, found.load.is_some() && found.save.is_some() && fused != 0, "{:?}", shape);
            assert_eq!(found.budget_met, met == 1, "{:?}", shape);
            assert_eq!((found.colocation as u64, found.hint as u64), (colocation, hint), "{:?}", shape);
        }
    }
}
"""


def emit_rust(listing: Listing) -> str:
    """One module: types, the look-up, and the profiles as arrays."""
    head = "".join(f"// {line}\n" for line in heading(listing))
    data = "\n\n".join((*_constants(), *_profiles(listing), *_arrays(listing)))
    tests = _TESTS + "\n".join(_test_arrays(listing)) + _CHECK
    return head + fill_in("lookup.rs", WORDS="\n".join(_enumerations()), DATA=f"{data}\n\n{tests}")


def _enumerations() -> Iterator[str]:
    for name, members in _WORDS.items():
        yield "#[derive(Clone, Copy, Debug, PartialEq, Eq)]"
        yield f"pub enum {name.capitalize()} {{\n" + "".join(f"    {_camel(word)},\n" for word in members) + "}\n"


def _camel(word: str) -> str:
    return "".join(part.capitalize() for part in word.split("-"))


def _word(name: str, at: int) -> str:
    return f"{name.capitalize()}::{_camel(_WORDS[name][at])}"


def _constants() -> Iterator[str]:
    for name, value in constants():
        yield f"pub const {name}: {'f64' if isinstance(value, float) else 'u64'} = {value!r};"
    hints = ", ".join(_word("HINT", at) for at in range(len(_WORDS["HINT"])))
    yield f"const ALL_HINTS: [Hint; HINTS] = [{hints}];"
    for name in _COUNTS:
        yield f"const {name}S: usize = {len(_WORDS[name])};"


def _profiles(listing: Listing) -> Iterator[str]:
    entries = (_profile(index, profile) for index, profile in enumerate(listing.profiles))
    yield "/// The newest first.\n" + _array("PROFILES", "Profile", entries, "pub static")


def _profile(index: int, profile: ListedProfile) -> str:
    return (
        f"Profile {{ index: {index}, profile_id: {text(profile.profile_id)}, created_at: {text(profile.created_at)}, "
        f"published: {_flag(profile.published)}, simulated: {_flag(profile.device.simulated)}, "
        f"facts: {facts(profile.device)} }}"
    )


def facts(device: DeviceFacts) -> str:
    """The facts of a device as the value of a constant."""
    identity = device.identity
    link = identity.max_link
    major, minor = identity.compute_capability
    return (
        f"Facts {{ uuid: {text(device.uuid)}, compute_capability: ({major}, {minor}), sm_count: {identity.sm_count}, "
        f"memory_gib: {identity.memory_gib}, copy_engines: {identity.copy_engines}, "
        f"mig_slice: {text(identity.mig_slice)}, pci_device_id: {_some_text(identity.pci_device_id)}, "
        f"pci_subsystem_id: {_some_text(identity.pci_subsystem_id)}, "
        f"max_link: {_some(link and f'Link {{ generation: {link.generation}, width: {link.width} }}')}, "
        f"host_cpu: {_some_text(identity.host_cpu)}, numa_distance: {_some(identity.numa_distance)}, "
        f"iommu: {_some_flag(identity.iommu)}, confidential: {_some_flag(identity.confidential)} }}"
    )


def _arrays(listing: Listing) -> Iterator[str]:
    yield _array("PLANS", "CopyPlan", map(_plan, listing.plans))
    yield _array("OPTIONS", "[u16; 5]", map(_row, listing.options))
    yield _array("COSTS", "[f64; 4]", map(_row, listing.costs))
    for name, values in (("ENTRIES", listing.entries), ("CELLS", listing.cells), ("RULE", listing.rule)):
        yield _array(name, "u32", map(_number, values))
    for name, values in (("EDGES", listing.edges), ("CENTRES", listing.centres)):
        yield _array(name, "u64", map(_number, values))
    yield _array("BUCKETS", "u16", map(_number, listing.buckets))
    tables = (_table(row, noise) for row, noise in zip(listing.tables, listing.noise, strict=True))
    yield _array("TABLES", "Table", tables)
    yield _array("ROUTES", "[i32; HINTS]", map(_row, listing.routes))


def _test_arrays(listing: Listing) -> Iterator[str]:
    vectors = listing.vectors
    questions = (_question(row, terms) for row, terms in zip(vectors.questions, vectors.terms, strict=True))
    yield _array("QUESTIONS", "(usize, Question)", questions)
    yield _array("VECTORS", "[u64; 10]", map(_row, vectors.shapes))


def _plan(row: Ints) -> str:
    backend, variant, threads, grid, descriptors, nbytes, priority, completion, backpressure, sms, overlap = row
    options = f"KernelOptions {{ max_grid_blocks: {grid}, chunk_descriptors: {_some(descriptors or None)} }}"
    return (
        f"CopyPlan {{ backend: {_word('BACKEND', backend)}, "
        f"variant: {_some(None if variant < 0 else _word('VARIANT', variant))}, threads: {_some(threads or None)}, "
        f"options: {_some(options if grid else None)}, chunk_bytes: {_some(nbytes or None)}, "
        f"stream_priority: {priority}, completion: {_word('COMPLETION', completion)}, "
        f"backpressure: {_flag(backpressure)}, sm_partition: {_some(sms or None)}, prefer_overlap: {_flag(overlap)} }}"
    )


def _table(row: Ints, noise: tuple[float, ...]) -> str:
    colocation, _, range_edges, rows, range_buckets, size_edges, columns, size_buckets, cells, *measured = row
    margin, step_s = noise
    return (
        f"Table {{ colocation: {_word('COLOCATION', colocation)}, range_edges: {range_edges}, rows: {rows}, "
        f"range_buckets: {range_buckets}, size_edges: {size_edges}, columns: {columns}, "
        f"size_buckets: {size_buckets}, cells: {cells}, measured: {measured}, margin: {margin!r}, "
        f"step_s: {_some(repr(step_s) if step_s else None)} }}"
    )


def _question(row: Ints, terms: tuple[float, ...]) -> str:
    profile, direction, objective, colocation, runtime = row
    budget, period_s, step_s = terms
    asked = None if colocation < 0 else _word("COLOCATION", colocation)
    return (
        f"({profile}, Question {{ direction: {_word('DIRECTION', direction)}, "
        f"objective: {_word('OBJECTIVE', objective)}, budget: {budget!r}, period_s: {period_s!r}, "
        f"step_s: {_some(repr(step_s) if step_s else None)}, colocation: {_some(asked)}, "
        f"runtime: {_word('RUNTIME', runtime)} }})"
    )


def _array(name: str, kind: str, entries: Iterable[str], declared: str = "static") -> str:
    kept = list(entries)
    return f"#[rustfmt::skip]\n{declared} {name}: [{kind}; {len(kept)}] = [\n{joined(kept)}\n];"


def _row(values: Iterable[float]) -> str:
    return f"[{', '.join(map(_number, values))}]"


def _number(value: float) -> str:
    return "u64::MAX" if value == NO_EDGE else repr(value)


def _flag(value: int | bool) -> str:
    return "true" if value else "false"


def _some(value: object) -> str:
    return "None" if value is None else f"Some({value})"


def _some_text(value: str | None) -> str:
    return _some(None if value is None else text(value))


def _some_flag(value: bool | None) -> str:
    return _some(None if value is None else _flag(value))


def text(value: str) -> str:
    """A string literal; what is not plain ASCII is escaped by its number."""
    return '"' + "".join(sign if sign in _PLAIN else f"\\u{{{ord(sign):x}}}" for sign in value) + '"'
