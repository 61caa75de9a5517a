"""Arithmetic on bf16 values in single precision, as the vector units make it.

A bf16 is the upper half of a float32: a shift or a mask converts it on every architecture, and back by cutting off the
rest. Source: PTX ISA, "Alternate Floating Point Data Formats", "mov" and "rsqrt".
"""

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

_WORD: Final = ir.IntType(32)
_FLOAT: Final = ir.FloatType()
_HIGH: Final = 0xFFFF0000
_LOAD: Final = "{ .reg .b16 low, high; mov.b16 low, 0; ld.global.b16 high, [$1]; mov.b32 $0, {low, high}; }"
_STORE: Final = "{ .reg .b16 low, high; mov.b32 {low, high}, $1; st.global.b16 [$0], high; }"


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


def _scaled(_typing_context: Any, _a: Any, _b: Any, _factor: Any) -> Any:
    def lower(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        a, b, factor = arguments
        made = [
            builder.bitcast(builder.fmul(builder.fmul(one, factor), other), _WORD)
            for one, other in zip(_values(builder, a), _values(builder, b), strict=True)
        ]
        low, high = (
            builder.or_(builder.lshr(first, ir.Constant(_WORD, 16)), builder.and_(second, ir.Constant(_WORD, _HIGH)))
            for first, second in (made[:2], made[2:])
        )
        upper = builder.shl(builder.zext(high, a.type), ir.Constant(a.type, 32))
        return builder.or_(upper, builder.zext(low, a.type))

    return types.int64(types.int64, types.int64, types.float32), lower


def _inverse_root(_typing_context: Any, _value: Any) -> Any:
    def lower(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        return _assemble(builder, _FLOAT, ("rsqrt.approx.f32 $0, $1;", "=f,f"), arguments)

    return types.float32(types.float32), lower


def _load_value(_typing_context: Any, _address: Any) -> Any:
    def lower(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        return _assemble(builder, _FLOAT, (_LOAD, "=f,l"), arguments)

    return types.float32(types.int64), lower


def _store_value(_typing_context: Any, _address: Any, _value: Any) -> Any:
    def lower(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        _assemble(builder, ir.VoidType(), (_STORE, "l,f"), arguments)
        return context.get_dummy_value()

    return types.void(types.int64, types.float32), lower


def _assemble(builder: ir.IRBuilder, result: ir.Type, code: tuple[str, str], operands: Any) -> Any:
    """Emits inline assembly (text and constraints) that keeps its place among the others."""
    kind = ir.FunctionType(result, [operand.type for operand in operands])
    return builder.call(ir.InlineAsm(kind, *code, side_effect=True), operands)


def _bits(_typing_context: Any, _value: Any) -> Any:
    def lower(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _WORD)

    return types.int32(types.float32), lower


def _value(_typing_context: Any, _bits: Any) -> Any:
    def lower(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _FLOAT)

    return types.float32(types.int32), lower


add_products: Callable[..., Any] = intrinsic(_add_products)
"""`add_products(total, a, b) -> float32`: a float32, and the products of the four bf16 of two int64, lowest first."""

scaled: Callable[..., Any] = intrinsic(_scaled)
"""`scaled(a, b, factor) -> int64`: the products of the four bf16 of two int64, each times a float32, as bf16."""

inverse_root: Callable[..., Any] = intrinsic(_inverse_root)
"""`inverse_root(value) -> float32`: 1 / sqrt of a float32, as norms take it: not the last bit right."""

load_value: Callable[..., Any] = intrinsic(_load_value)
"""`load_value(address) -> float32`: one bf16."""

store_value: Callable[..., Any] = intrinsic(_store_value)
"""`store_value(address, value)`: one bf16 of a float32."""

bits: Callable[..., Any] = intrinsic(_bits)
"""`bits(value) -> int32`: those of a float32."""

value: Callable[..., Any] = intrinsic(_value)
"""`value(bits) -> float32`: the one with those bits, an int32."""
