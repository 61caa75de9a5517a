"""Times the steps of a decode probe with nothing beside it, on the first GPU.

    python tests/bench/decode.py [--json] [--source builtin|torch|external:CMD] [--model MODEL] [--steps N] ...

MODEL is a preset or free parameters, as `DecodeModel.parse` takes them. To prepare is to allocate, compile and capture;
what was compiled before comes from the user's cache, unless PEGA_TUNE_CACHE is empty. Bandwidth and operations are what
the model's bytes and products come to in a mean step.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass

import numpy as np

from pega_tune.autotune.cuda.compile_cache import user_compile_cache
from pega_tune.errors import PegaTuneError
from pega_tune.kernels.decode.models import DecodeModel
from pega_tune.kernels.decode.probe import WARM_STEPS, make_probe
from pega_tune.kernels.decode.ring import StepRing


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured; times of steps in milliseconds."""

    source: str
    model: str
    steps: int
    prepare_s: float
    mean_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    gbytes_per_s: float
    tflops_per_s: float


def measure(arguments: argparse.Namespace) -> Row:
    """Runs the probe once."""
    model = DecodeModel.parse(arguments.model)
    ring = StepRing.private(WARM_STEPS + arguments.steps + 2)
    probe = make_probe(arguments.source, arguments.model, arguments.priority, cache=user_compile_cache())
    begin_s = time.monotonic()
    try:
        probe.start(ring)
        prepared_s = time.monotonic()
        probe.run(WARM_STEPS + arguments.steps + 1)
    finally:
        probe.close()
    ends_s = ring.ends_between(begin_s, time.monotonic())[WARM_STEPS:]
    steps_ms = np.diff(ends_s) * 1e3
    mean_s = float(steps_ms.mean()) / 1e3
    p50, p99 = np.percentile(steps_ms, (50, 99))
    return Row(
        arguments.source,
        model.key,
        len(steps_ms),
        prepared_s - begin_s,
        mean_s * 1e3,
        float(p50),
        float(p99),
        float(steps_ms.max()),
        model.step_bytes / mean_s / 1e9,
        model.step_flops / mean_s / 1e12,
    )


def main() -> int:
    """Prints the row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--source", default="builtin")
    parser.add_argument("--model", default="qwen3-4b")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--priority", type=int, default=0)
    arguments = parser.parse_args()
    try:
        row = measure(arguments)
    except PegaTuneError as error:
        print(f"error: {error.message}", error.hint, sep="\n", file=sys.stderr)
        return 3
    if arguments.json:
        print(json.dumps(asdict(row)))
        return 0
    print(f"{row.source}  {row.model}  {row.steps} steps, {row.prepare_s:.1f} s to prepare")
    print(f"mean {row.mean_ms:.3f}  p50 {row.p50_ms:.3f}  p99 {row.p99_ms:.3f}  max {row.max_ms:.3f} ms")
    print(f"{row.gbytes_per_s:.0f} GB/s  {row.tflops_per_s:.1f} TFLOP/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
