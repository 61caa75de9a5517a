import numpy as np
import pytest

from pega_tune.kernels.driver import DriverCallError, DriverFunction
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.submit import CopyCommands, KernelLaunch, KernelSubmitter, submit_copies, wait_event
from tests.helpers.fake_driver import Call, FakeDriver

HIGH = 2**64 - 2**20
STREAM = HIGH + 7


def commands(direction: Direction, count: int = 5) -> CopyCommands:
    step = np.arange(count, dtype=np.uint64)
    return CopyCommands(direction, np.uint64(HIGH) + step, np.uint64(2**63) + step, step + np.uint64(1))


@pytest.mark.parametrize(
    ("direction", "function"),
    [(Direction.H2D, DriverFunction.MEMCPY_HTOD_ASYNC), (Direction.D2H, DriverFunction.MEMCPY_DTOH_ASYNC)],
)
def test_copies_are_submitted_in_order_with_exact_arguments(direction: Direction, function: DriverFunction) -> None:
    driver = FakeDriver()
    submit_copies(driver.table, commands(direction), STREAM)
    assert driver.calls == [Call(function, (HIGH + i, 2**63 + i, i + 1, STREAM)) for i in range(5)]


@pytest.mark.parametrize("failing", [0, 2, 4])
def test_copies_stop_at_the_first_failure_and_name_it(failing: int) -> None:
    driver = FakeDriver()
    driver.fail(failing, 700)
    with pytest.raises(DriverCallError) as caught:
        submit_copies(driver.table, commands(Direction.D2H), STREAM)
    error = caught.value
    assert (error.function, error.status, error.index) == ("cuMemcpyDtoHAsync", 700, failing)
    assert len(driver.calls) == failing + 1


def test_sizes_of_64_bits_arrive_whole() -> None:
    driver = FakeDriver()
    huge = np.array([2**40 + 3], np.uint64)
    submit_copies(driver.table, CopyCommands(Direction.H2D, huge, huge, huge), 0)
    assert driver.calls == [Call(DriverFunction.MEMCPY_HTOD_ASYNC, (2**40 + 3, 2**40 + 3, 2**40 + 3, 0))]


def test_kernel_uploads_its_descriptors_then_launches_on_the_same_stream() -> None:
    driver = FakeDriver()
    submitter = KernelSubmitter(driver.table, staging_address=HIGH + 1, device_address=HIGH + 2)
    submitter.submit(KernelLaunch(HIGH + 3, grid_blocks=65_535, threads=1024, descriptors=100_000), STREAM)
    upload, launch = driver.calls
    assert upload == Call(DriverFunction.MEMCPY_HTOD_ASYNC, (HIGH + 2, HIGH + 1, 2_400_000, STREAM))
    assert launch.function is DriverFunction.LAUNCH_KERNEL
    *before, _parameters, extra, descriptors, count = launch.arguments
    assert before == [HIGH + 3, 65_535, 1, 1, 1024, 1, 1, 0, STREAM]
    assert (extra, descriptors, count) == (0, HIGH + 2, 100_000)


def test_kernel_submitter_takes_one_launch_after_another() -> None:
    driver = FakeDriver()
    submitter = KernelSubmitter(driver.table, 4096, 8192)
    submitter.submit(KernelLaunch(11, 2, 1024, 3), 1)
    submitter.submit(KernelLaunch(12, 3, 256, 4), 2)
    first, second = driver.calls[1], driver.calls[3]
    assert (first.arguments[0], first.arguments[1], first.arguments[4], first.arguments[-1]) == (11, 2, 1024, 3)
    assert (second.arguments[0], second.arguments[1], second.arguments[4], second.arguments[-1]) == (12, 3, 256, 4)


@pytest.mark.parametrize(("failing", "function"), [(0, "cuMemcpyHtoDAsync"), (1, "cuLaunchKernel")])
def test_kernel_names_the_call_that_failed(failing: int, function: str) -> None:
    driver = FakeDriver()
    driver.fail(failing, 1)
    with pytest.raises(DriverCallError) as caught:
        KernelSubmitter(driver.table, 4096, 8192).submit(KernelLaunch(11, 2, 1024, 3), 1)
    assert (caught.value.function, caught.value.status) == (function, 1)
    assert len(driver.calls) == failing + 1


def test_waiting_polls_until_the_event_is_ready() -> None:
    driver = FakeDriver()
    driver.pend(3)
    wait_event(driver.table, HIGH)
    assert driver.calls == [Call(DriverFunction.EVENT_QUERY, (HIGH,))] * 4


def test_waiting_outlasts_one_native_round_of_polls() -> None:
    driver = FakeDriver()
    driver.pend(150_000)
    driver.fail(150_000, 719)
    with pytest.raises(DriverCallError, match=r"cuEventQuery failed with 719"):
        wait_event(driver.table, 1)
