"""How long look-ups in emitted files take, with the profile that is shipped: medians over rounds. Nothing asserts them.

The goals: 10 ns in C and Rust, 500 ns in Python, for shapes in random order. A round is
short, so that few are interrupted.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pega_tune.autotune.bench.lookup import LookupShapes
from pega_tune.profiles.bundle.files import read_bundle
from pega_tune.profiles.emit.languages import emit
from pega_tune.profiles.policy.sources import PACKAGED

ROUNDS = 2001

_C = """
#include "policy.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static const uint64_t shapes[][2] = {SHAPES};
enum {{ count = sizeof shapes / sizeof *shapes }};
static double now(void) {{ struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }}
static int ascending(const void *a, const void *b) {{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}}
/* Apart from main, which gcc takes for cold. */
static __attribute__((noinline)) double one_round(const pega_tune_policy *policy) {{
    double began = now();
    for (int at = 0; at < count; ++at) {{
        pega_tune_decision found;
        pega_tune_shape shape = {{shapes[at][0], shapes[at][1], 0, 0, 0}};
        if (pega_tune_decide(policy, &shape, &found)) exit(1);
        __asm__ volatile("" : : "g"(&found) : "memory");
    }}
    return (now() - began) / count;
}}
int main(void) {{
    static pega_tune_policy policy;
    pega_tune_question question = pega_tune_default_question(PEGA_TUNE_DIRECTION_H2D);
    if (pega_tune_ask(&pega_tune_profiles[0], &question, &policy)) return 1;
    static double rounds[ROUNDS];
    for (int round = 0; round < ROUNDS; ++round) rounds[round] = one_round(&policy);
    qsort(rounds, ROUNDS, sizeof *rounds, ascending);
    printf("%.1f\\n", rounds[ROUNDS / 2]);
}}
"""

_RUST = """
#![forbid(unsafe_code)]
mod policy;
use std::{{hint::black_box, time::Instant}};
static SHAPES: &[[u64; 2]] = &[SHAPES];
fn main() {{
    let question = policy::Question {{ direction: policy::Direction::H2d, ..Default::default() }};
    let policy = policy::PROFILES[0].policy(&question).unwrap();
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {{
            let began = Instant::now();
            for &[ranges, bytes] in SHAPES {{
                black_box(&policy.decide(&policy::Shape::new(ranges, bytes)));
            }}
            began.elapsed().as_secs_f64() * 1e9 / SHAPES.len() as f64
        }})
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{{:.1}}", rounds[ROUNDS / 2]);
}}
"""

_PYTHON = """
import sys, time
sys.path.insert(0, ".")
import policy
shapes = [SHAPES]
decide = policy.PROFILES[0].policy("h2d").decide
plain, told = [], []
for _ in range(ROUNDS):
    began = time.perf_counter_ns()
    for ranges, nbytes in shapes:
        decide(ranges, nbytes)
    plain.append((time.perf_counter_ns() - began) / len(shapes))
    began = time.perf_counter_ns()
    for ranges, nbytes in shapes:
        decide(ranges, nbytes, host_runs=1, alignment=16, pitch=nbytes)
    told.append((time.perf_counter_ns() - began) / len(shapes))
print(f"{{sorted(plain)[ROUNDS // 2]:.0f}} ns, told how ranges lie {{sorted(told)[ROUNDS // 2]:.0f}}")
"""


def main() -> None:
    """Prints one line for each language."""
    (path,) = PACKAGED.glob("*.json")
    profile = read_bundle(path).stored
    with tempfile.TemporaryDirectory() as folder:
        for language, name, program, braces, build in (
            ("c", "policy.h", _C, "{{{0}, {1}}}", ("gcc", "-std=gnu11", "-O2", "main.c", "-o", "main")),
            ("rust", "policy.rs", _RUST, "[{0}, {1}]", ("rustc", "--edition", "2021", "-O", "main.rs")),
            ("python", "policy.py", _PYTHON, "({0}, {1})", ()),
        ):
            if build and not shutil.which(build[0]):
                print(f"{language}: no {build[0]}")
                continue
            at = Path(folder, language)
            at.mkdir()
            at.joinpath(name).write_text(emit(language, (profile,)))
            shapes = ", ".join(braces.format(*shape) for shape in LookupShapes().counts)
            source = program.replace("{{", "{").replace("}}", "}").replace("SHAPES}", shapes + "}")
            source = source.replace("[SHAPES]", f"[{shapes}]").replace("ROUNDS", str(ROUNDS))
            at.joinpath(f"main{Path(name).suffix if language != 'c' else '.c'}").write_text(source)
            if build:
                subprocess.run(build, cwd=at, check=True)
            command = ["./main"] if build else [sys.executable, "-S", "-I", "main.py"]
            print(f"{language}: {subprocess.check_output(command, cwd=at, text=True).strip()} ns")


if __name__ == "__main__":
    main()
