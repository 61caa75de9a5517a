import ctypes
import pickle

import pytest

from pega_tune.errors import DeviceError, UsageError
from pega_tune.kernels.driver import DriverCallError, DriverFunction, DriverMissingError, DriverTable

ADDRESSES = {function: 2**63 + function for function in DriverFunction}
LAUNCH = DriverFunction.LAUNCH_KERNEL
OPTIONAL = [DriverFunction.MEMCPY_BATCH_ASYNC_V1, DriverFunction.MEMCPY_BATCH_ASYNC_V2]


def test_a_table_holds_whole_addresses_at_their_indices() -> None:
    table = DriverTable.of(dict(reversed(ADDRESSES.items())))
    assert [int(table.address(function)) for function in DriverFunction] == list(ADDRESSES.values())
    assert table.addresses.tolist() == list(ADDRESSES.values())


def test_functions_are_named_as_in_the_driver() -> None:
    assert DriverFunction.MEMCPY_HTOD_ASYNC.symbol == "cuMemcpyHtoDAsync"
    assert DriverFunction.STREAM_SYNCHRONIZE.symbol == "cuStreamSynchronize"


@pytest.mark.parametrize(
    "addresses",
    [
        {function: address for function, address in ADDRESSES.items() if function is not LAUNCH},
        {**ADDRESSES, LAUNCH: 0},
    ],
    ids=["missing", "null"],
)
def test_a_table_is_complete_and_callable(addresses: dict[DriverFunction, int]) -> None:
    with pytest.raises(UsageError, match="cuLaunchKernel"):
        DriverTable.of(addresses)


def test_optional_functions_may_be_absent() -> None:
    given = {function: address for function, address in ADDRESSES.items() if function not in OPTIONAL}
    table = DriverTable.of(given)
    assert [function for function in DriverFunction if not table.has(function)] == OPTIONAL
    assert [int(table.address(function)) for function in OPTIONAL] == [0, 0]


def test_success_passes() -> None:
    DriverTable.of(ADDRESSES).check(DriverFunction.EVENT_QUERY, 0)


def test_a_failure_names_function_result_and_position() -> None:
    table = DriverTable.of(ADDRESSES, name_of={1: "CUDA_ERROR_INVALID_VALUE"}.__getitem__)
    with pytest.raises(DriverCallError) as caught:
        table.check(DriverFunction.MEMCPY_HTOD_ASYNC, 1, index=12)
    assert caught.value.message == "cuMemcpyHtoDAsync failed at index 12 with CUDA_ERROR_INVALID_VALUE"
    assert (caught.value.status, caught.value.index, caught.value.hint) == (1, 12, "")
    assert isinstance(caught.value, DeviceError)


def test_without_names_the_number_stands_for_the_result() -> None:
    with pytest.raises(DriverCallError, match=r"cuLaunchKernel failed with 701"):
        DriverTable.of(ADDRESSES).check(DriverFunction.LAUNCH_KERNEL, 701)


@pytest.mark.parametrize("status", [214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721])
def test_errors_that_poison_the_context_are_sticky(status: int) -> None:
    error = DriverCallError("cuEventQuery", status)
    assert error.is_sticky
    assert "new process" in error.hint


@pytest.mark.parametrize("status", [1, 2, 3, 201, 400, 600, 701, 720, 801])
def test_errors_of_one_call_are_not_sticky(status: int) -> None:
    assert not DriverCallError("cuEventQuery", status).is_sticky


def test_an_error_crosses_processes_whole() -> None:
    error = DriverCallError("cuLaunchKernel", 719, "CUDA_ERROR_LAUNCH_FAILED", 3)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.message, copy.hint, copy.status, copy.index) == (error.message, error.hint, 719, 3)


class FakeLibrary:
    """A driver library that knows some functions and some names of results."""

    def __init__(self, lacking: str = "", status: int = 0, cuda_version: int = 13_000) -> None:
        self.asked: list[tuple[str, int, int]] = []

        def get_address(symbol, found, version, flags, _symbol_status):
            self.asked.append((symbol.decode(), version, flags))
            if symbol.decode() == lacking:
                return status
            if version > cuda_version:
                return 500
            ctypes.c_uint64.from_address(found).value = 2**63 + len(self.asked) - 1
            return 0

        def get_name(result, name):
            if result != 700:
                return 1
            name[0] = b"CUDA_ERROR_ILLEGAL_ADDRESS"
            return 0

        pointer = ctypes.c_void_p
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, pointer, ctypes.c_int, ctypes.c_uint64, pointer)
        self.cuGetProcAddress_v2 = prototype(get_address)
        self.cuGetErrorName = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))(get_name)


def test_resolving_asks_for_every_function_in_the_version_that_is_called() -> None:
    library = FakeLibrary()
    table = DriverTable.resolve(lambda: library)
    assert table.addresses.tolist() == list(ADDRESSES.values())
    versions = dict(zip(OPTIONAL, (12_080, 13_000), strict=True))
    assert library.asked == [(f.symbol, versions.get(f, 12_000), 0) for f in DriverFunction]


@pytest.mark.parametrize(
    ("cuda_version", "missing"), [(12_000, OPTIONAL), (12_080, OPTIONAL[1:]), (12_090, OPTIONAL[1:]), (13_000, [])]
)
def test_an_older_driver_lacks_what_came_later(cuda_version: int, missing: list[DriverFunction]) -> None:
    table = DriverTable.resolve(lambda: FakeLibrary(cuda_version=cuda_version))
    assert [function for function in DriverFunction if not table.has(function)] == missing


def test_results_are_named_by_the_driver() -> None:
    table = DriverTable.resolve(FakeLibrary)
    assert (table.name_of(700), table.name_of(12_345)) == ("CUDA_ERROR_ILLEGAL_ADDRESS", "12345")


def test_no_driver_is_one_clear_error() -> None:
    with pytest.raises(DriverMissingError, match="there is no NVIDIA driver") as caught:
        DriverTable.resolve(lambda: ctypes.CDLL("libcuda-that-is-absent.so.1"))
    assert "install" in caught.value.hint


@pytest.mark.parametrize("status", [0, 500], ids=["null", "not found"])
def test_a_driver_without_a_function_is_refused(status: int) -> None:
    with pytest.raises(DriverMissingError, match="has no cuEventQuery"):
        DriverTable.resolve(lambda: FakeLibrary("cuEventQuery", status))


def test_a_driver_older_than_the_lookup_is_refused() -> None:
    with pytest.raises(DriverMissingError, match="older than"):
        DriverTable.resolve(object)
