"""Words that two threads or processes share: a store that publishes what was stored before it, a load that sees it.

The compiler may move plain stores of a native loop past each other, and an Arm processor shows them in any order.
"""

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_WORD: Final = ir.IntType(64)
_ALIGNMENT: Final = 8


def _publish(_typing_context: Any, _address: Any, _value: Any) -> Any:
    def lower(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        address, value = arguments
        builder.store_atomic(value, builder.inttoptr(address, _WORD.as_pointer()), "release", _ALIGNMENT)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), lower


def _observe(_typing_context: Any, _address: Any) -> Any:
    def lower(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(arguments[0], _WORD.as_pointer()), "acquire", _ALIGNMENT)

    return types.uint64(types.uint64), lower


publish: Callable[[Any, Any], None] = intrinsic(_publish)
"""`publish(address, value)`: writes a uint64 so that who observes it sees all that was written before; native code."""

observe: Callable[[Any], Any] = intrinsic(_observe)
"""`observe(address) -> uint64`: reads a word; what was written before it was published is seen too; native code."""
