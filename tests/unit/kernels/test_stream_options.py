import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.stream_options import PartitionSizes, PartitionSupport, PriorityRange


@st.composite
def sizes(draw: st.DrawFn) -> PartitionSizes:
    step = draw(st.integers(1, 16))
    least = step * draw(st.integers(1, 4))
    return PartitionSizes(least, step, draw(st.integers(least, 300)))


@given(sizes(), st.integers(1, 400))
def test_sizes_are_rounded_to_what_there_is(known: PartitionSizes, sms: int) -> None:
    there_are = [n for n in range(1, known.device_sms + 1) if n >= known.least_sms and n % known.step_sms == 0]
    assert known.rounded(sms) == next((n for n in there_are if n >= sms), there_are[-1])
    assert known.most_sms == there_are[-1]
    assert bool(known.refusal(sms)) == (sms not in there_are)
    assert PartitionSupport(known).refusal(sms) == known.refusal(sms)


@pytest.mark.parametrize("words", [(0, 0, 132), (8, 0, 132), (4, 8, 132), (12, 8, 132), (8, 8, 7)])
def test_sizes_that_make_no_sense_are_refused(words: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="no partitions of"):
        PartitionSizes(*words)


def test_without_partitions_the_reason_is_told_in_one_line() -> None:
    assert PartitionSupport.no("too\nold").refusal(8) == "SM partitions do not work here: too old"
    assert PartitionSupport.no("too old").refusal(None) == ""


@pytest.mark.parametrize("priority", [0, -5])
def test_priorities_in_the_range(priority: int) -> None:
    PriorityRange(0, -5).require(priority)


@pytest.mark.parametrize("priority", [1, -6])
def test_priorities_that_the_driver_would_clamp(priority: int) -> None:
    with pytest.raises(UsageError, match=f"stream priority {priority} is outside"):
        PriorityRange(0, -5).require(priority)


def test_capabilities_are_plain_data() -> None:
    code = (
        "import sys, pega_tune.autotune.engine; "
        "sys.exit(any(m in sys.modules for m in ('cuda.bindings', 'numba', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
