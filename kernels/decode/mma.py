"""The product of two small matrices on the tensor cores, as inline PTX.

Of the shapes that every architecture from sm_75 on has, m16n8k8 in half precision with single-precision sums is the one
for floating-point data. Source: PTX ISA, "mma" (PTX 6.5, sm_75).
"""

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

_SUMS: Final = 4  # single-precision values that a thread holds of the 16 x 8 result
_TEXT: Final = (
    "{ .reg .b32 a0, a1, b0, b1; mov.b64 {a0, a1}, $8; mov.b64 {b0, b1}, $9; "
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {$0, $1, $2, $3}, {a0, a1}, {b0}, {$4, $5, $6, $7}; }"
)
_CONSTRAINTS: Final = "=f,=f,=f,=f,f,f,f,f,l,l"


def _multiply_add(_typing_context: Any, _sums: Any, _a: Any, _b: Any) -> Any:
    sums = types.UniTuple(types.float32, _SUMS)

    def lower(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        given, a, b = arguments
        operands = [*(builder.extract_value(given, i) for i in range(_SUMS)), a, b]
        result = ir.LiteralStructType([ir.FloatType()] * _SUMS)
        kind = ir.FunctionType(result, [operand.type for operand in operands])
        made = builder.call(ir.InlineAsm(kind, _TEXT, _CONSTRAINTS, side_effect=True), operands)
        return context.make_tuple(
            builder, signature.return_type, [builder.extract_value(made, i) for i in range(_SUMS)]
        )

    return sums(sums, types.int64, types.int64), lower


multiply_add: Callable[..., Any] = intrinsic(_multiply_add)
"""`multiply_add(sums, a, b) -> sums`: adds a 16 x 8 by 8 x 8 product, 2,048 operations, to a warp's 16 x 8 sums.

A thread's part of the sums is four float32, of `a` the four halves of an int64, of `b` the two in the low half of one.
"""
