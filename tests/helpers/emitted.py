"""Asks emitted files in their own languages what `Auto` was asked, and puts all answers in the same words."""

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pega_tune.errors import UsageError
from pega_tune.kernels.plan import Backend, Completion, CopyPlan, Variant
from pega_tune.kernels.shape import MAX_BYTES, Direction
from pega_tune.profiles.emit.languages import emit
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint, Objective, Runtime
from tests.helpers.postgresql import ALL_HERE

REFUSED = "refused"
STRICT_RUST = ("rustc", "--edition=2021", "-Dwarnings", "-Copt-level=1", "-Cdebug-assertions", "-Coverflow-checks")
STRICT_C = ("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic")


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: the profile by its place in the file, the words, and the shape."""

    profile: int
    direction: Direction
    objective: Objective
    colocation: Colocation | None
    runtime: Runtime
    budget: float
    period_s: float
    step_s: float | None
    ranges: int
    total_bytes: int
    host_runs: int | None = None
    alignment: int | None = None
    pitch: int | None = None

    def terms(self) -> dict[str, Any]:
        names = ("objective", "budget", "period_s", "step_s", "colocation", "runtime")
        return {name: getattr(self, name) for name in names}

    def layout(self) -> dict[str, Any]:
        return {"host_runs": self.host_runs, "alignment": self.alignment, "pitch": self.pitch}

    def line(self) -> str:
        """As the programs below read it: words by their places, doubles by their bits, 0 for what is not told."""
        colocation = -1 if self.colocation is None else list(Colocation).index(self.colocation)
        words = (list(kind).index(word) for kind, word in ((Direction, self.direction), (Objective, self.objective)))
        terms = (bits(value) for value in (self.budget, self.period_s, self.step_s or 0.0))
        shape = (self.ranges, self.total_bytes, self.host_runs or 0, self.alignment or 0, self.pitch or 0)
        return " ".join(map(str, (self.profile, *words, colocation, list(Runtime).index(self.runtime), *terms, *shape)))


def bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def profiles_in_order(profiles: Iterable[StoredProfile]) -> list[StoredProfile]:
    """As they stand in a file."""
    return sorted(profiles, key=lambda profile: profile.created_at, reverse=True)


def near_edges(profile: StoredProfile) -> list[tuple[int, int]]:
    """Ranges and bytes at every edge -1, 0 and +1 of every table, and where what was measured begins and ends."""
    shapes: set[tuple[int, int]] = {(7, 7), (8, 8), (9, 9), (8, 8 << 20), (8, (8 << 20) - 1), (9, 9 << 20)}
    for table in profile.policy.tables:
        ranges = {*table.range_edges, *table.measured_ranges}
        sizes = {*table.size_edges, *table.measured_sizes}
        some_ranges, some_sizes = (sorted(values)[:: max(1, len(values) // 3)] for values in (ranges, sizes))
        pairs = [*product(ranges, some_sizes), *product(some_ranges, sizes)]
        for (n, size), a, b in product(pairs, (-1, 0, 1), (-1, 0, 1)):
            shapes |= {(n + a, (n + a) * (size + b)), (n + a, (n + a) * (size + b + 1) - 1)}
        shapes |= {(n, total + c) for n, total, c in product(some_ranges, table.measured_bytes, (-1, 0, 1))}
    return sorted((n, total) for n, total in shapes if 1 <= n <= total <= MAX_BYTES)


def by_auto(profiles: Sequence[StoredProfile], questions: Iterable[Asked]) -> list[str]:
    """What `Auto` answers."""
    autos = [Auto.from_profile(profile) for profile in profiles]
    return [_answer(lambda each=each: _ask(autos[each.profile], each)) for each in questions]


def _ask(auto: Auto, each: Asked) -> Any:
    return auto.decide(each.ranges, each.total_bytes, each.direction, **each.terms(), **each.layout())


def loaded(text: str) -> ModuleType:
    """The emitted Python as a module."""
    module = ModuleType("emitted")
    sys.modules[module.__name__] = module  # where dataclasses look
    exec(compile(text, "emitted.py", "exec"), module.__dict__)
    return module


def by_python(module: ModuleType, questions: Iterable[Asked]) -> list[str]:
    """What the module answers; policies are kept, as callers do."""
    policies: dict[tuple[Any, ...], Any] = {}

    def ask(each: Asked) -> Any:
        key = (each.profile, each.direction, *each.terms().values())
        if key not in policies:
            profile = module.PROFILES[each.profile]
            policies[key] = profile.policy(str(each.direction), **_plain(each.terms()))
        return policies[key].decide(each.ranges, each.total_bytes, **each.layout())

    return [_answer(lambda each=each: ask(each)) for each in questions]


def _plain(terms: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, str) else value for name, value in terms.items()}


def _answer(ask: Any) -> str:
    try:
        found = ask()
    except (UsageError, ValueError):
        return REFUSED
    plan, direction = found.plan, found.direction
    pair = hasattr(plan, "load")
    load, save = (plan.load, plan.save) if pair else (plan, plan)
    predicted, place = found.predicted, found.predicted_for
    costs = (predicted.time_s, predicted.stall_s, predicted.completion_p99_s)
    return " ".join(
        (
            "-" if direction == "d2h" else _plan(load),
            "-" if direction == "h2d" else _plan(save),
            str(int(pair and plan.fused)),
            *(str(bits(-1.0 if cost is None else cost)) for cost in costs),
            *(("0", "0") if place is None else (str(place.merged_ranges), str(place.average_range_bytes))),
            str(int(found.budget_met)),
            str(list(Colocation).index(found.colocation)),
            str(list(Hint).index(found.hint)),
            str(list(Evidence).index(found.evidence)),
            "-" if found.profile is None else found.profile.encode().hex(),
        )
    )


def _plan(plan: CopyPlan) -> str:
    options = plan.options
    values = (
        list(Backend).index(plan.backend),
        -1 if plan.variant is None else list(Variant).index(plan.variant),
        plan.threads or 0,
        options.max_grid_blocks if options else 0,
        (options and options.chunk_descriptors) or 0,
        plan.chunk_bytes or 0,
        plan.stream_priority,
        list(Completion).index(plan.completion),
        int(plan.backpressure),
        plan.sm_partition or 0,
        int(plan.prefer_overlap),
    )
    return ",".join(map(str, values))


def require(tool: str) -> None:
    """Skips where a compiler is missing, or fails where it must not be."""
    if shutil.which(tool) is None:
        if os.environ.get(ALL_HERE):
            pytest.fail(f"there is no {tool}")
        pytest.skip(f"there is no {tool}")


def compiled(folder: Path, language: str, profiles: Sequence[StoredProfile], **options: Any) -> Path:
    """A program that answers lines of questions."""
    folder.mkdir(parents=True, exist_ok=True)
    text = emit(language, profiles, **options)
    if language == "c":
        folder.joinpath("policy.h").write_text(text)
        folder.joinpath("main.c").write_text(_C)
        build(folder, *STRICT_C, "-O1", "main.c", "-o", "main")
    else:
        folder.joinpath("policy.rs").write_text(text)
        folder.joinpath("main.rs").write_text(_RUST)
        build(folder, *STRICT_RUST, "main.rs")
    return folder / "main"


def build(folder: Path, *command: str) -> None:
    require(command[0])
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def by_program(program: Path, questions: Iterable[Asked]) -> list[str]:
    """What it answers."""
    lines = "".join(f"{each.line()}\n" for each in questions)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


_C = r"""
#define PEGA_TUNE_SELF_TEST
#include "policy.h"
#include <inttypes.h>
#include <stdio.h>

static double number(uint64_t bits) { double value; memcpy(&value, &bits, sizeof value); return value; }
static uint64_t bits(double value) { uint64_t read; memcpy(&read, &value, sizeof read); return read; }
static void plan(const pega_tune_copy_plan *p) {
    if (!p) { printf("- "); return; }
    printf("%d,%d,%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRId32 ",%d,%d,%" PRIu32 ",%d ", (int)p->backend,
           (int)p->variant, p->threads, p->options.max_grid_blocks, p->options.chunk_descriptors, p->chunk_bytes,
           p->stream_priority, (int)p->completion, p->backpressure, p->sm_partition, p->prefer_overlap);
}
int main(void) {
    static pega_tune_policy policy;
    pega_tune_shape s;
    size_t profile, asked = SIZE_MAX;
    int w[4];
    uint64_t t[3];
    pega_tune_question last = {0, 0, 0, 0, 0, 0, 0};
    pega_tune_status status = PEGA_TUNE_OK;
    if (pega_tune_failures()) return 1;
    while (scanf("%zu %d %d %d %d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                 " %" SCNu64, &profile, &w[0], &w[1], &w[2], &w[3], &t[0], &t[1], &t[2], &s.merged_ranges,
                 &s.total_bytes, &s.host_runs, &s.alignment, &s.pitch) == 13) {
        pega_tune_question q = pega_tune_default_question((pega_tune_direction)w[0]);
        pega_tune_decision d;
        q.objective = (pega_tune_objective)w[1];
        q.colocation = (pega_tune_colocation)w[2];
        q.runtime = (pega_tune_runtime)w[3];
        q.budget = number(t[0]);
        q.period_s = number(t[1]);
        q.step_s = number(t[2]);
        if (profile != asked || memcmp(&q, &last, sizeof q))
            status = pega_tune_ask(&pega_tune_profiles[profile], &q, &policy);
        asked = profile;
        memcpy(&last, &q, sizeof q);
        if (status || pega_tune_decide(&policy, &s, &d)) { puts("refused"); continue; }
        plan(d.load);
        plan(d.save);
        printf("%d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %d %d %d ", d.fused, bits(d.time_s),
               bits(d.stall_s), bits(d.completion_p99_s), d.predicted_ranges, d.predicted_range_bytes, d.budget_met,
               (int)d.colocation, (int)d.hint, (int)d.evidence);
        for (const char *c = d.profile ? d.profile : ""; *c; ++c) printf("%02x", (unsigned char)*c);
        puts(d.profile ? "" : "-");
    }
    return 0;
}
"""

_RUST = r"""
#![forbid(unsafe_code)]
mod policy;
use policy::*;
use std::{fmt::Write, io::Read};

const DIRECTIONS: [Direction; 3] = [Direction::H2d, Direction::D2h, Direction::Both];
const OBJECTIVES: [Objective; 4] =
    [Objective::Throughput, Objective::Balanced, Objective::TailBounded, Objective::Strict];
const COLOCATIONS: [Colocation; 4] =
    [Colocation::Idle, Colocation::SameContext, Colocation::TimeSliced, Colocation::Mps];
const RUNTIMES: [Runtime; 3] = [Runtime::Pegaflow, Runtime::KernelOptions, Runtime::Full];

fn plan(plan: Option<&CopyPlan>) -> String {
    let plan = match plan {
        Some(plan) => plan,
        None => return "-".into(),
    };
    let none = KernelOptions { max_grid_blocks: 0, chunk_descriptors: None };
    let options = plan.options.unwrap_or(none);
    format!(
        "{},{},{},{},{},{},{},{},{},{},{}",
        plan.backend as u8,
        plan.variant.map_or(-1, |variant| variant as i8),
        plan.threads.unwrap_or(0),
        options.max_grid_blocks,
        options.chunk_descriptors.unwrap_or(0),
        plan.chunk_bytes.unwrap_or(0),
        plan.stream_priority,
        plan.completion as u8,
        plan.backpressure as u8,
        plan.sm_partition.unwrap_or(0),
        plan.prefer_overlap as u8
    )
}

fn answer(found: &Decision) -> String {
    let bits = |cost: Option<f64>| cost.unwrap_or(-1.0).to_bits();
    let place = found.predicted_for.unwrap_or(Place { merged_ranges: 0, average_range_bytes: 0 });
    let profile = found.profile.map_or("-".to_string(), |id| id.bytes().map(|byte| format!("{:02x}", byte)).collect());
    format!(
        "{} {} {} {} {} {} {} {} {} {} {} {} {}",
        plan(found.load),
        plan(found.save),
        found.fused as u8,
        bits(found.predicted.time_s),
        bits(found.predicted.stall_s),
        bits(found.predicted.completion_p99_s),
        place.merged_ranges,
        place.average_range_bytes,
        found.budget_met as u8,
        found.colocation as u8,
        found.hint as u8,
        found.evidence as u8,
        profile
    )
}

fn main() {
    let (mut input, mut output) = (String::new(), String::new());
    std::io::stdin().read_to_string(&mut input).unwrap();
    let mut last: Option<(u64, Question, Result<Policy, Refusal>)> = None;
    for line in input.lines() {
        let v: Vec<i128> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let known = |value: i128| if value == 0 { None } else { Some(value as u64) };
        let question = Question {
            direction: DIRECTIONS[v[1] as usize],
            objective: OBJECTIVES[v[2] as usize],
            colocation: if v[3] < 0 { None } else { Some(COLOCATIONS[v[3] as usize]) },
            runtime: RUNTIMES[v[4] as usize],
            budget: f64::from_bits(v[5] as u64),
            period_s: f64::from_bits(v[6] as u64),
            step_s: known(v[7]).map(f64::from_bits),
        };
        let same = matches!(&last, Some((at, asked, _)) if *at == v[0] as u64 && *asked == question);
        if !same {
            last = Some((v[0] as u64, question, PROFILES[v[0] as usize].policy(&question)));
        }
        let mut shape = Shape::new(v[8] as u64, v[9] as u64);
        shape.host_runs = known(v[10]);
        shape.alignment = known(v[11]);
        shape.pitch = known(v[12]);
        let found = match &last.as_ref().unwrap().2 {
            Ok(policy) => policy.decide(&shape),
            Err(refusal) => Err(*refusal),
        };
        writeln!(output, "{}", found.map_or("refused".into(), |found| answer(&found))).unwrap();
    }
    print!("{}", output);
}
"""
