"""Products of bf16 values in single precision, as the vector units make them.

A bf16 is the upper half of a float32: a shift or a mask converts it on every architecture. Source: PTX ISA, "Alternate
Floating Point Data Formats".
"""

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

_WORD: Final = ir.IntType(32)
_FLOAT: Final = ir.FloatType()
_HIGH: Final = 0xFFFF0000


def _add_products(_typing_context: Any, _total: Any, _a: Any, _b: Any) -> Any:
    def lower(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        total, a, b = arguments
        for one, other in zip(_values(builder, a), _values(builder, b), strict=True):
            total = builder.fma(one, other, total)
        return total

    return types.float32(types.float32, types.int64, types.int64), lower


def _values(builder: ir.IRBuilder, four: ir.Value) -> list[ir.Value]:
    """The four values of a 64-bit word, lowest first."""
    halves = builder.trunc(four, _WORD), builder.trunc(builder.lshr(four, ir.Constant(four.type, 32)), _WORD)
    words: list[ir.Value] = []
    for half in halves:
        words += builder.shl(half, ir.Constant(_WORD, 16)), builder.and_(half, ir.Constant(_WORD, _HIGH))
    return [builder.bitcast(word, _FLOAT) for word in words]


def _bits(_typing_context: Any, _value: Any) -> Any:
    def lower(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _WORD)

    return types.int32(types.float32), lower


add_products: Callable[..., Any] = intrinsic(_add_products)
"""`add_products(total, a, b) -> float32`: a float32, and the products of the four bf16 of two int64, lowest first."""

bits: Callable[..., Any] = intrinsic(_bits)
"""`bits(value) -> int32`: those of a float32."""
