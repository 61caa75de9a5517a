import inspect

import numpy as np
import pytest
from numba import cfunc, types
from numba.core.errors import TypingError

from pega_tune.kernels.native import foreign, native

i32, u32, u64 = types.int32, types.uint32, types.uint64


def test_a_function_whose_code_cannot_be_cached_is_compiled_all_the_same() -> None:
    namespace: dict[str, object] = {}
    exec(compile("def double(x): return x + x", "<generated>", "exec"), namespace)
    assert native(namespace["double"])(21) == 42


def test_division_by_zero_follows_numpy() -> None:
    @native
    def divide(a, b):
        return a / b

    assert np.isinf(divide(1.0, 0.0))


@cfunc(i32(u64, u32, i32))
def _check(a, b, c):
    return np.int32(-7) if a == u64(2**64 - 5) and b == u32(2**32 - 1) and c == i32(-3) else np.int32(1)


_call = foreign(u64, u32, i32)


def test_sign_and_width_of_arguments_and_result_survive() -> None:
    @native
    def run(address, a, b, c):
        return _call(address, (a, b, c))

    assert run(np.uint64(_check.address), np.uint64(2**64 - 5), np.uint64(2**32 - 1), np.int64(-3)) == -7


def test_a_float_is_no_address() -> None:
    @native
    def run(address):
        return _call(address, (1.0, 2, 3))

    with pytest.raises(TypingError, match="tuple of 3 integers"):
        run(np.uint64(_check.address))


def test_the_number_of_arguments_is_checked() -> None:
    @native
    def run(address):
        return _call(address, (1, 2))

    with pytest.raises(TypingError, match="tuple of 3 integers"):
        run(np.uint64(_check.address))


def test_native_functions_keep_their_documentation() -> None:
    @native
    def documented():
        """Says what it does."""

    assert inspect.getdoc(documented) == "Says what it does."
