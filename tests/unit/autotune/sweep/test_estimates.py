"""What sweeps are said to take, against the seconds that their blocks have taken on an H200.

When that was recorded, a fresh process was waited for, tried batched copies, and was started for nothing after MPS: a
start took longer than it is said to take now. All else takes what it took.
"""

from collections.abc import Callable

import pytest

from pega_tune.autotune.sweep.confirm_tasks import Confirmation
from pega_tune.autotune.sweep.keys import is_idle
from pega_tune.autotune.sweep.planner import plan_sweep
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.serving_tasks import PlannedServing
from pega_tune.autotune.sweep.tasks import Task
from pega_tune.kernels.plan import Backend
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.recordings import DATA, load
from tests.helpers.sweeps import capabilities

RECORDING = DATA / "h200" / "8a39189" / "standard-mps.jsonl.gz"


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    """The blocks of the recorded sweep, as they are planned today, by key."""
    request = SweepRequest.from_json(load(RECORDING).sweep.request)
    plan = plan_sweep(request, capabilities(backends=tuple(Backend)))
    return {task.key: task for task in plan.blocks}


def _start_s(task: Task) -> float:
    return task.start_s if isinstance(task, PlannedServing | Confirmation) else 0.0


def _both_s(tasks: dict[str, Task], chosen: Callable[[Task], bool]) -> tuple[float, float]:
    """What blocks should take once their processes are there, and what they took."""
    took_s = {block.key: block.seconds for block in load(RECORDING).blocks}
    keys = [key for key, task in tasks.items() if chosen(task) and not _start_s(task)]
    return sum(tasks[key].estimate_s for key in keys), sum(took_s[key] for key in keys)


def test_the_recorded_sweep_is_the_one_that_is_planned(tasks: dict[str, Task]) -> None:
    assert list(tasks) == [block.key for block in load(RECORDING).blocks]


@pytest.mark.parametrize(
    ("chosen", "within"),
    [
        (lambda _task: True, 0.1),
        (lambda task: is_idle(task.key), 0.1),
        (lambda task: isinstance(task, PlannedServing) and not task.process, 0.1),
        (lambda task: isinstance(task, PlannedServing) and task.process > 0, 0.25),
        (lambda task: isinstance(task, Confirmation), 0.1),
    ],
    ids=["all", "idle", "surveys", "fresh processes", "second pass"],
)
def test_blocks_take_what_they_should(tasks: dict[str, Task], chosen: Callable[[Task], bool], within: float) -> None:
    estimate_s, took_s = _both_s(tasks, chosen)
    assert estimate_s == pytest.approx(took_s, rel=within)


def test_starts_are_said_to_take_no_longer_than_they_did_and_no_less_than_half(tasks: dict[str, Task]) -> None:
    took_s = {block.key: block.seconds for block in load(RECORDING).blocks}
    starting = {key: start_s for key, task in tasks.items() if (start_s := _start_s(task))}
    excess_s = sum(took_s[key] - (tasks[key].estimate_s - start_s) for key, start_s in starting.items())
    assert excess_s / 2 < sum(starting.values()) < excess_s


def test_each_change_to_mps_and_from_it_takes_a_process(tasks: dict[str, Task]) -> None:
    def start_s(where: Colocation, process: str = "") -> float:
        return _start_s(tasks[f"{where}/both/16384x67108864{process}"])

    assert start_s(Colocation.MPS) > start_s(Colocation.TIME_SLICED) > start_s(Colocation.SAME_CONTEXT) > 0
    assert start_s(Colocation.MPS, "/process-2") == start_s(Colocation.MPS)
    assert start_s(Colocation.TIME_SLICED, "/process-2") == start_s(Colocation.MPS)
