"""What emitted files say, where they run, and what they are for."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pega_tune.kernels.facts import DeviceFacts, Identity, Link, Provenance, Staleness
from pega_tune.kernels.plan import CopyPlan
from pega_tune.profiles.emit.c import facts as c_facts
from pega_tune.profiles.emit.c import text as c_text
from pega_tune.profiles.emit.errors import EmitError
from pega_tune.profiles.emit.gather import list_profiles
from pega_tune.profiles.emit.languages import LANGUAGES, emit
from pega_tune.profiles.emit.listing import BUCKETS, NO_EDGE
from pega_tune.profiles.emit.rust import facts as rust_facts
from pega_tune.profiles.emit.rust import text as rust_text
from pega_tune.profiles.emit.text import joined
from pega_tune.profiles.policy.matching import fit
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.terms import ProfileState, Runtime, Tier
from tests.helpers.emitted import STRICT_C, STRICT_RUST, build, by_auto, by_program, by_python, compiled, loaded
from tests.unit.profiles.emit.test_answers import COMPILED, hand_made
from tests.unit.profiles.policy.examples import CREATED, DIRECT, NARROW, facts, one_way, option, profile

SIMULATED = replace(facts(), uuid="sim:h200")
REPLAYED = replace(facts(), uuid="replay:GPU-1")
NASTY = '\'"\\ */ /* // {} ${x} %s %n ??/ ??\' \N{LATIN SMALL LETTER E WITH ACUTE} \\u{7d} r#" <b> `x` """'


def other_devices() -> dict[str, DeviceFacts]:
    """Devices of which one fact differs from those of the measured one."""
    device = facts()
    changes = {
        "compute_capability": (9, 1),
        "sm_count": 131,
        "memory_gib": 141,
        "copy_engines": 2,
        "mig_slice": "1g.10gb",
        "pci_device_id": None,
        "pci_subsystem_id": "10de:18bf",
        "max_link": Link(5, 8),
        "host_cpu": "another cpu",
        "numa_distance": 10,
        "iommu": False,
        "confidential": True,
    }
    found = {name: replace(device, identity=replace(device.identity, **{name: v})) for name, v in changes.items()}
    return found | {"simulated": SIMULATED, "replayed": REPLAYED}


def alike() -> dict[str, DeviceFacts]:
    """Devices that are like the measured one."""
    device = facts()
    return {
        "the board": device,
        "another board": replace(device, uuid="GPU-2"),
        "not told which": replace(device, uuid=""),
        "unknown link": replace(device, identity=replace(device.identity, max_link=None)),
        "known not to be confidential": replace(device, identity=replace(device.identity, confidential=False)),
        "another driver": replace(device, staleness=Staleness(driver="1")),
        "another name": replace(device, provenance=Provenance("x")),
    }


EVERYONE = {**alike(), **other_devices()}


def as_auto_matches(stored: DeviceFacts, device: DeviceFacts) -> bool:
    found = fit(stored, device)
    return found is not None and found.tier in (Tier.BOARD, Tier.CLASS)


@pytest.mark.parametrize("stored", [facts(), SIMULATED, REPLAYED], ids=["real", "simulated", "replayed"])
@pytest.mark.parametrize("name", EVERYONE)
def test_python_matches_where_auto_does(stored, name):
    module = loaded(emit("python", [profile(device=stored)]))
    device = EVERYONE[name]
    assert module.matches(module.Facts.from_json(device.to_json())) is as_auto_matches(stored, device)
    assert (module.profile_for(module.Facts.from_json(device.to_json())) is None) is not as_auto_matches(stored, device)


def test_only_the_devices_that_are_alike_match():
    assert [name for name, device in EVERYONE.items() if as_auto_matches(facts(), device)] == list(alike())


@pytest.mark.parametrize("language", COMPILED)
def test_compiled_files_match_where_auto_does(tmp_path, language):
    stored = [facts(), SIMULATED, REPLAYED, replace(facts(), identity=Identity((8, 0), 1, 2, 3, host_cpu=NASTY))]
    profiles = [replace(profile(device=each), profile_id=f"p{at}") for at, each in enumerate(stored)]
    devices = [*EVERYONE.values(), stored[-1]]
    expected = "".join(str(int(as_auto_matches(one, other))) for one in stored for other in devices)
    text = emit(language, profiles)
    if language == "c":
        tests = ", ".join(map(c_facts, devices))
        (tmp_path / "policy.h").write_text(text)
        (tmp_path / "main.c").write_text(
            '#include "policy.h"\n#include <stdio.h>\n'
            f"int main(void) {{ static const pega_tune_facts all[] = {{{tests}}};"
            "for (size_t p = 0; p < 4; ++p) for (size_t d = 0; d < sizeof all / sizeof *all; ++d)"
            "putchar('0' + pega_tune_matches(&pega_tune_profiles[p], &all[d])); return 0; }\n"
        )
        build(tmp_path, *STRICT_C, "main.c", "-o", "main")
    else:
        tests = ", ".join(map(rust_facts, devices))
        (tmp_path / "policy.rs").write_text(text)
        (tmp_path / "main.rs").write_text(
            f"mod policy; use policy::*;\nfn main() {{ let all = [{tests}];"
            'for p in &PROFILES { for d in &all { print!("{}", p.matches(d) as u8); } } }\n'
        )
        build(tmp_path, *STRICT_RUST, "main.rs")
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout == expected


def test_of_several_profiles_the_one_of_the_board_then_the_newest_is_taken():
    older, newer = (replace(profile(device=facts(f"GPU-{at}")), profile_id=f"p{at}") for at in (1, 2))
    newer = replace(newer, created_at=CREATED + timedelta(hours=1))
    draft = replace(newer, profile_id="draft", state=ProfileState.DRAFT, created_at=CREATED + timedelta(hours=2))
    module = loaded(emit("python", [older, draft, newer]))
    assert [each.profile_id for each in module.PROFILES] == ["draft", "p2", "p1"]

    def found(uuid: str, **options: bool) -> str:
        device = module.Facts.from_json(facts(uuid).to_json())
        return module.profile_for(device, **options).profile_id

    assert (found("GPU-1"), found("GPU-2"), found("GPU-3")) == ("p1", "p2", "p2")
    assert found("GPU-3", allow_drafts=True) == "draft"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_simulated_profile_says_so_and_a_draft_too(language):
    for device, state, word in (
        (SIMULATED, ProfileState.PUBLISHED, "SIMULATED"),
        (facts(), ProfileState.DRAFT, "DRAFT"),
    ):
        head = emit(language, [replace(profile(device=device), state=state)]).splitlines()[:3]
        plain = emit(language, [profile()]).splitlines()[:3]
        assert sum(word in line for line in head) == 1
        assert not any(word in line for line in plain)


def test_emitted_python_needs_no_package_at_all(tmp_path):
    file = tmp_path / "policy.py"
    file.write_text(emit("python", [profile()]))
    command = [sys.executable, "-S", "-I", "-W", "error"]
    assert subprocess.run([*command, file], capture_output=True, check=True).stdout == b""
    asked = json.dumps(facts().to_json())
    other = json.dumps(other_devices()["sm_count"].to_json())
    program = (
        "import json, sys\nsys.path.insert(0, sys.argv[1])\nimport policy\n"
        "device, other = (policy.Facts.from_json(json.loads(text)) for text in sys.argv[2:])\n"
        "found = policy.profile_for(device).policy('h2d', colocation='idle').decide(16, 16 << 12)\n"
        "print(found.plan.options.max_grid_blocks, found.predicted.time_s, policy.matches(other))\n"
        "print(sorted(name for name in sys.modules if name.startswith('pega')))\n"
    )
    command += ["-c", program, str(tmp_path), asked, other]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1 0.001 False\n[]\n", "")


def test_a_file_that_was_changed_fails_its_own_check(tmp_path):
    cells = tuple((option(NARROW, time_s),) for time_s in (1e-3, 2e-3, 3e-3))
    text = emit("python", [profile(one_way(cells=cells))])
    changed = text.replace("1 4096 1048576", "1 4097 1048576")
    file = tmp_path / "policy.py"
    codes = []
    for content in (text, changed):
        file.write_text(content)
        codes.append(subprocess.run([sys.executable, "-S", "-I", file], capture_output=True, check=False).returncode)
    assert codes == [0, 1]
    assert len(list(loaded(changed).failures())) == sum(row[2] // row[1] == 4096 for row in vector_rows(changed))


def vector_rows(text: str) -> list[tuple[int, ...]]:
    """Those about the table, which begin with its size edges."""
    module = loaded(text)
    return [row for row in module._rows(module._VECTORS, 10) if module._rows(module._QUESTIONS, 5)[row[0]][3] == 0]


@pytest.mark.parametrize("language", COMPILED)
def test_compiled_files_check_themselves(tmp_path, language):
    cells = tuple((option(NARROW, time_s),) for time_s in (1e-3, 2e-3, 3e-3))
    text = emit(language, [profile(one_way(cells=cells))])
    codes = []
    for content in (text, text.replace("1, 4096, 1048576", "1, 4095, 1048576")):
        if language == "c":
            (tmp_path / "policy.h").write_text(content)
            (tmp_path / "main.c").write_text(
                '#define PEGA_TUNE_SELF_TEST\n#include "policy.h"\n'
                "int main(void) { return pega_tune_failures() > 0; }\n"
            )
            build(tmp_path, *STRICT_C, "main.c", "-o", "main")
        else:
            (tmp_path / "main.rs").write_text(content)
            build(tmp_path, *STRICT_RUST, "--test", "main.rs")
        codes.append(subprocess.run([tmp_path / "main"], capture_output=True, check=False).returncode)
    assert (codes[0], codes[1] > 0) == (0, True)


def facts_with(**changes: object) -> DeviceFacts:
    return replace(facts(), identity=replace(facts().identity, **changes))


def plan_with(**changes: object) -> CopyPlan:
    return CopyPlan.from_json(NARROW.to_json() | changes)


words = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=40) | st.just(NASTY) | st.just("*/ \\")


@st.composite
def named(draw: st.DrawFn) -> StoredProfile:
    device = DeviceFacts(
        uuid="GPU" + draw(words),
        identity=Identity((9, 0), 1, 2, 3, draw(words), draw(words), draw(words), None, draw(words)),
        staleness=Staleness(),
        provenance=Provenance(draw(words), draw(words)),
    )
    return replace(profile(device=device), profile_id=draw(words) or "x")


@given(named())
@settings(max_examples=40)
def test_names_never_become_python(found):
    text = emit("python", [found])
    module = loaded(text)
    (kept,) = module.PROFILES
    assert kept.profile_id == found.profile_id
    assert kept.matches(module.Facts.from_json(found.device.to_json()))
    assert text.isascii()


def test_names_never_become_code(tmp_path):
    @given(st.lists(named(), min_size=3, max_size=6, unique_by=lambda each: each.profile_id))
    @settings(max_examples=2, phases=[Phase.generate])  # shrinking would compile many files
    def check(found):
        for language in COMPILED:
            asked = hand_made(found, 1)[::50]
            assert by_program(compiled(tmp_path / language, language, found), asked) == by_auto(found, asked)

    check()


@given(words, words)
def test_strings_are_plain_text_that_says_the_same(one, other):
    for literal in (c_text(one + other), rust_text(one + other)):
        assert literal.isascii()
        assert literal.isprintable()
        assert '"' not in literal[1:-1]
    assert "?" not in c_text(one + other)  # no trigraph
    read = c_text(one + other)[1:-1].encode().decode("unicode_escape").encode("latin-1").decode()
    assert read == one + other


def test_a_runtime_that_was_left_out_is_refused_and_others_answer_as_before(tmp_path):
    tables = [one_way(option(NARROW, 1e-3), runtime=runtime) for runtime in Runtime]
    whole, narrow = profile(*tables), profile(*(each for each in tables if each.runtime is Runtime.KERNEL_OPTIONS))
    asked = hand_made([whole], 3)[::9]
    text = emit("python", [whole], Runtime.KERNEL_OPTIONS)
    answers = ["refused" if each.runtime is not Runtime.KERNEL_OPTIONS else answer
               for each, answer in zip(asked, by_auto([narrow], asked), strict=True)]  # fmt: skip
    assert {each.runtime for each in asked} == set(Runtime)
    assert by_python(loaded(text), asked) == answers
    assert len(text) < len(emit("python", [whole]))
    for language in COMPILED:
        program = compiled(tmp_path / language, language, [whole], runtime=Runtime.KERNEL_OPTIONS)
        assert by_program(program, asked) == answers


def test_every_edge_has_vectors():
    table = one_way(range_edges=(1, 100), cells=one_way().cells * 2)
    vectors = list_profiles([profile(table)]).vectors
    ranges, sizes = ({count for _, count, *_ in vectors.shapes}, {total // n for _, n, total, *_ in vectors.shapes})
    for edge in (100, 16384):
        assert {edge - 1, edge, edge + 1} <= ranges
    for edge in (4096, 1 << 20, 1024, 1 << 21):
        assert {edge - 1, edge, edge + 1} <= sizes
    totals = {n * (total // n) for _, n, total, *_ in vectors.shapes}
    for edge in (4096, 64 << 20):
        assert {edge - 1, edge, edge + 1} <= totals
    assert {row[2] for row in vectors.questions} == {0, 1, 2, 3}


def test_equal_things_are_written_once():
    listing = list_profiles([profile(), replace(profile(), profile_id="other")])
    assert len(listing.profiles) == 2
    assert len(listing.entries) == 1
    assert listing.edges.count(NO_EDGE) == len(listing.buckets) // BUCKETS == 4
    assert listing.most_cells == 4
    assert len(list_profiles([profile(), profile()]).profiles) == 1


@pytest.mark.parametrize(
    ("profiles", "words"),
    [
        ([], "no profile"),
        ([profile(), replace(profile(), created_at=CREATED + timedelta(1))], "same id"),
        (
            [profile(device=facts_with(memory_gib=1 << 40))],
            "out of its range",
        ),
        ([profile(device=facts_with(numa_distance=-1))], "out of its range"),
        ([profile(one_way(option(plan_with(chunk_bytes=1 << 64), 1e-3)))], "larger"),
        ([profile(one_way(option(plan_with(stream_priority=-1 << 40), 1e-3)))], "priority"),
    ],
)
def test_what_no_file_can_hold_is_refused(profiles, words):
    for language in LANGUAGES:
        with pytest.raises(EmitError) as caught:
            emit(language, profiles)
        assert words in caught.value.message


def test_lines_are_filled_and_nothing_is_lost():
    entries = [str(7**at) for at in range(60)]
    lines = joined(entries).splitlines()
    assert max(map(len, lines)) < 122
    assert "".join(lines).replace(" ", "").split(",") == entries
    assert joined([]) == ""


def example(language: str) -> str:
    """What stands in the documentation."""
    text = (Path(__file__).parents[4] / "docs" / "emitted.md").read_text(encoding="utf-8")
    return text.partition("## Asking")[2].partition(f"```{language}\n")[2].partition("```")[0]


@pytest.mark.parametrize(("plan", "bounds"), [(DIRECT, None), (NARROW, (1, None))])
def test_the_example_of_the_documentation_runs(plan, bounds):
    stored = profile(one_way(option(plan, 1e-3), runtime=Runtime.KERNEL_OPTIONS))
    names = {
        "policy": loaded(emit("python", [stored])),
        "json": json,
        "file": io.StringIO(json.dumps(stored.device.to_json())),
        "merged_ranges": 64,
        "total_bytes": 1 << 20,
    }
    exec(example("python"), names)
    assert names["decision"].plan.backend == plan.backend
    assert names["bounds"] == bounds


def test_the_example_in_c_compiles(tmp_path):
    tmp_path.joinpath("policy.h").write_text(emit("c", [profile()]))
    include, *lines = example("c").splitlines()
    declared = "void run(const pega_tune_copy_plan *plan);\nvoid load(pega_tune_facts facts);"
    body = "\n".join(lines)
    tmp_path.joinpath("main.c").write_text(f"{include}\n{declared}\nvoid load(pega_tune_facts facts) {{\n{body}\n}}\n")
    build(tmp_path, *STRICT_C, "-c", "main.c")


def test_the_example_in_rust_compiles(tmp_path):
    tmp_path.joinpath("policy.rs").write_text(emit("rust", [profile()]))
    module, *lines = example("rust").splitlines()
    signature = "pub fn load(facts: policy::Facts<'_>, merged_ranges: u64, total_bytes: u64)"
    returned = "Result<Option<policy::KernelOptions>, Box<dyn std::error::Error>>"
    body = "\n".join(lines)
    tmp_path.joinpath("main.rs").write_text(f"{module}\n{signature} -> {returned} {{\n{body}\nOk(options)\n}}\n")
    build(tmp_path, *STRICT_RUST, "--crate-type=lib", "main.rs")
