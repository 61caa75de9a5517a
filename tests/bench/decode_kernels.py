"""Times every kernel of a decode step with nothing beside it, through the profiler of torch, on the first GPU.

    python tests/bench/decode_kernels.py [--json] [--source builtin|torch] [--model MODEL] [--replays N]

For calibrating the built-in probe against the one of torch. CUPTI traces all kernels of the process, so torch and a GPU
must be there for either. A row is a kernel with one grid, by which the products of the built-in probe are told apart;
its grids are those of the plan. Launches and sum are of one step, the share is that of all that ran. Between kernels is
time that no row has, so the sum of all is less than a step.
"""

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from pega_tune.autotune.cuda.compile_cache import user_compile_cache
from pega_tune.errors import PegaTuneError, UsageError
from pega_tune.kernels.context import PrimaryContext, call
from pega_tune.kernels.decode.builtin import BuiltinStep, StepKernels
from pega_tune.kernels.decode.compiling import step_kernel_name
from pega_tune.kernels.decode.launches import Launch
from pega_tune.kernels.decode.loop import Step
from pega_tune.kernels.decode.models import DecodeModel
from pega_tune.kernels.decode.sizes import StepAddresses
from pega_tune.kernels.decode.step import StepPlan
from pega_tune.kernels.decode.torch_probe import TorchStep, import_torch

WARM_REPLAYS = 32
NAME_WIDTH = 60
CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")  # of the trace: what the device does
NOWHERE = StepAddresses(0, 0, (0, 0), 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Event:
    """What ran once; the grid is empty if it is not a kernel."""

    name: str
    begin_us: float
    duration_us: float
    grid: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """All launches of a kernel with one grid; `share` is of the device's time, 1 for all of it."""

    kernel: str
    launches: float
    grid: tuple[int, ...]
    mean_us: float
    sum_us: float
    share: float


def events_of(trace: dict[str, Any]) -> list[Event]:
    """What the device did, in the order in which it began, of a trace as torch exports it."""
    events = [
        Event(entry["name"], float(entry["ts"]), float(entry["dur"]), tuple(entry["args"].get("grid", ())))
        for entry in trace["traceEvents"]
        if entry.get("cat") in CATEGORIES
    ]
    return sorted(events, key=lambda event: event.begin_us)


def named(events: Sequence[Event], launches: Sequence[Launch]) -> list[Event]:
    """The events of whole steps, by the names and grids of the plan, whose launches they are one after the other."""
    steps, odd = divmod(len(events), len(launches))
    planned = [*launches] * steps
    if odd or any(step_kernel_name(launch.kernel) != event.name for event, launch in zip(events, planned, strict=True)):
        raise UsageError(f"the profiler saw {len(events)} kernels, which are not steps of {len(launches)}")
    return [
        replace(event, name=str(launch.kernel), grid=(launch.blocks, launch.parts, 1))
        for event, launch in zip(events, planned, strict=True)
    ]


def rows_of(events: Iterable[Event], replays: int) -> list[Row]:
    """The table, the longest sum first."""
    groups: defaultdict[tuple[str, tuple[int, ...]], list[float]] = defaultdict(list)
    for event in events:
        groups[event.name, event.grid].append(event.duration_us)
    total_us = sum(map(sum, groups.values()))
    rows = [
        Row(name, len(times) / replays, grid, sum(times) / len(times), sum(times) / replays, sum(times) / total_us)
        for (name, grid), times in groups.items()
    ]
    return sorted(rows, key=lambda row: -row.sum_us)


def profiled(torch: Any, step: Step, replays: int) -> list[Event]:
    """What the device does in so many launches of a step's graph."""
    graph, stream = driver.CUgraphExec(step.graph), driver.CUstream(step.stream)

    def replay(times: int) -> None:
        for _ in range(times):
            call("cuGraphLaunch", graph, stream)
        call("cuStreamSynchronize", stream)

    replay(WARM_REPLAYS)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profiler:
        replay(replays)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = events_of(json.loads(path.read_text()))
    if not events:
        raise UsageError("the profiler of torch saw no kernel", "CUPTI may be missing, or in use by another profiler")
    return events


def measure(source: str, model: DecodeModel, replays: int) -> list[Row]:
    """Opens the step of a source and profiles it."""
    torch = import_torch()
    torch.cuda.set_device(0)
    with ExitStack() as stack:
        stack.enter_context(PrimaryContext(0))
        if source == "torch":
            events = profiled(torch, stack.enter_context(TorchStep(torch, model, 0)).step, replays)
        else:
            cache = user_compile_cache()
            step = stack.enter_context(BuiltinStep(model, 0, cache)).step
            sms = stack.enter_context(StepKernels(model.kind, cache)).sms
            events = named(profiled(torch, step, replays), StepPlan(model, NOWHERE, sms).launches())
        return rows_of(events, replays)


def show(rows: Sequence[Row]) -> None:
    """Prints the table."""
    print(f"{'kernel':<{NAME_WIDTH}}{'launches':>10}{'grid':>16}{'mean us':>10}{'sum us':>10}{'share':>8}")
    for row in rows:
        grid = " x ".join(map(str, row.grid)) or "-"
        name = row.kernel if len(row.kernel) < NAME_WIDTH else f"{row.kernel[: NAME_WIDTH - 4]}..."
        numbers = f"{row.mean_us:>10.2f}{row.sum_us:>10.1f}{row.share:>8.1%}"
        print(f"{name:<{NAME_WIDTH}}{row.launches:>10g}{grid:>16}{numbers}")
    launches, sum_us = sum(row.launches for row in rows), sum(row.sum_us for row in rows)
    print(f"{'all':<{NAME_WIDTH}}{launches:>10g}{'':>16}{sum_us / launches:>10.2f}{sum_us:>10.1f}{1:>8.1%}")


def main() -> int:
    """Prints the table, or one line that says why there is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--source", choices=("builtin", "torch"), default="builtin")
    parser.add_argument("--model", default="qwen3-4b")
    parser.add_argument("--replays", type=int, default=2)
    arguments = parser.parse_args()
    try:
        rows = measure(arguments.source, DecodeModel.parse(arguments.model), max(1, arguments.replays))
    except PegaTuneError as error:
        print("error: " + "; ".join(filter(None, (error.message, error.hint))), file=sys.stderr)
        return 3
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
