"""The table of the kernels of a step, of traces like those that torch exports."""

import pytest

from pega_tune.errors import UsageError
from pega_tune.kernels.decode.compiling import step_kernel_name
from pega_tune.kernels.decode.launches import StepKernel
from pega_tune.kernels.decode.models import PRESETS
from pega_tune.kernels.decode.step import StepPlan
from tests.bench.decode_kernels import NOWHERE, Event, events_of, named, rows_of

LAUNCHES = StepPlan(PRESETS["small"], NOWHERE, 132).launches()


def steps(count: int) -> list[Event]:
    """The events of so many steps, whose kernels take as long as their place in the step says."""
    return [
        Event(step_kernel_name(launch.kernel), float(begin), float(place), ())
        for begin in range(count)
        for place, launch in enumerate(LAUNCHES)
    ]


def entry(category: str, begin_us: float, **arguments: object) -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": f"at {begin_us}", "ts": begin_us, "dur": 1.5, "args": arguments}


def test_what_the_device_did_is_read_in_the_order_in_which_it_began():
    trace = [
        entry("kernel", 3.0, grid=[4, 24, 1], block=[384, 1, 1]),
        {"ph": "M", "name": "process_name", "args": {"name": "python"}},
        entry("cuda_runtime", 1.0),
        entry("gpu_memset", 2.0),
    ]
    assert events_of({"traceEvents": trace}) == [Event("at 2.0", 2.0, 1.5, ()), Event("at 3.0", 3.0, 1.5, (4, 24, 1))]


def test_products_are_told_apart_by_the_grids_of_the_plan():
    rows = rows_of(named(steps(2), LAUNCHES), 2)
    assert sum(row.launches for row in rows) == len(LAUNCHES)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert sum(row.sum_us for row in rows) == sum(range(len(LAUNCHES)))
    assert [row.sum_us for row in rows] == sorted((row.sum_us for row in rows), reverse=True)
    products = {(launch.blocks, launch.parts, 1) for launch in LAUNCHES if launch.kernel is StepKernel.MULTIPLY_VECTOR}
    assert {row.grid for row in rows if row.kernel == StepKernel.MULTIPLY_VECTOR} == products
    (head,) = (row for row in rows if row.grid == (LAUNCHES[-2].blocks, 1, 1))
    assert (head.launches, head.mean_us) == (1, len(LAUNCHES) - 2)


@pytest.mark.parametrize("seen", [steps(2)[1:], steps(1)[::-1]])
def test_what_is_not_the_step_is_refused(seen):
    with pytest.raises(UsageError, match=f"steps of {len(LAUNCHES)}"):
        named(seen, LAUNCHES)
