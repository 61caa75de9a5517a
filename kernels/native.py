"""How functions that run without the interpreter are declared, and how they call C functions by address."""

from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite import ir
from numba import cfunc, njit, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


def native(function: F) -> F:
    """Compiles `function` on its first call, without the GIL, and keeps the machine code on disk if there is a place.

    Division follows numpy (no zero checks). The file of the function is all that the disk cache watches, so a native
    function calls only native functions of its own module.
    """
    try:
        return _declare(function, cache=True)
    except RuntimeError:  # no directory to keep the cache in can be written
        return _declare(function, cache=False)


def _declare(function: F, cache: bool) -> F:
    compiled: F = njit(nogil=True, error_model="numpy", cache=cache)(function)
    return compiled


def callback(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compiles a function to a C function with an `address`, as `native`; calling it takes no lock either.

    That is how native code runs native code of another module: through the address, with `foreign`.
    """

    def declare(function: Callable[..., Any]) -> Any:
        try:
            return cfunc(signature, cache=True, error_model="numpy")(function)
        except RuntimeError:
            return cfunc(signature, error_model="numpy")(function)

    return declare


def foreign(*arguments: types.Type) -> Callable[[Any, tuple[Any, ...]], int]:
    """A C function `int f(arguments)` for use in native code, called through its address.

    Integers are converted to the declared types, whose sign and width must be those of the C prototype; pointers and
    `size_t` are `uint64`. Other values are refused, as an address that became a float has lost its low bits.

    Args:
        arguments: numba types of the C arguments.

    Returns:
        A callable `(address, (argument, ...)) -> int32`, for native code only.
    """
    declared = types.int32(types.uint64, types.Tuple(arguments))

    def call(_typing_context: Any, address: types.Type, values: types.Type) -> Any:
        given = (address, *values) if isinstance(values, types.BaseTuple) else ()
        if len(given) != 1 + len(arguments) or not all(isinstance(value, types.Integer) for value in given):
            raise TypingError(f"needs an address and a tuple of {len(arguments)} integers, not {address}, {values}")
        return declared, _call_by_address

    caller: Callable[[Any, tuple[Any, ...]], int] = intrinsic(call)
    return caller


def _call_by_address(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    address, arguments = values
    c_types = [context.get_value_type(argument) for argument in signature.args[1]]
    pointer = ir.FunctionType(ir.IntType(32), c_types).as_pointer()
    return builder.call(builder.inttoptr(address, pointer), cgutils.unpack_tuple(builder, arguments))


def _to_pointer(_typing_context: Any, _address: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.uint64), codegen


pointer: Callable[[Any], Any] = intrinsic(_to_pointer)
"""A uint64 address as a pointer, of which `numba.carray` makes an array; for native code only."""
