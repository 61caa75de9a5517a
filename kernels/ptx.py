"""Global-memory loads and stores as inline PTX: the width and the order in the source are those of the machine code.

Loads carry `L1::no_allocate`: each byte is read once, so a line of it in L1 would only evict what decode keeps there.
They are not `.nc`: PTX leaves the non-coherent path undefined for data that anybody writes while the kernel runs, and
the kernel cannot know that of pages of a live cache. An ordinary load needs no such promise, sees what was written
before the launch, mapped pinned host memory included, and costs the same: since sm_70 both paths share one L1.

Source: PTX ISA, "ld", "st", "Cache Eviction Priority Hints" (PTX 7.4, sm_70), "WARP_SZ" and "%globaltimer".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

Intrinsic: TypeAlias = Callable[..., Any]
"""Code that numba generates where it is called; of no use outside device code."""

STREAMING = "L1::no_allocate"
"""Cache hint for data that is read once."""


@dataclass(frozen=True, slots=True)
class Access:
    """The loads and stores of one width. Addresses are int64, aligned to the width; a value is opaque to the caller.

    Attributes:
        width_bytes: bytes per access: 16, 8, 4 or 1.
        load: `load(address) -> value`.
        store: `store(address, value)`.
        load_if: `load_if(address, condition) -> value`; touches no memory, and the value means nothing, if it is false.
        store_if: `store_if(address, value, condition)`; touches no memory if it is false.
    """

    width_bytes: int
    load: Intrinsic
    store: Intrinsic
    load_if: Intrinsic
    store_if: Intrinsic


@dataclass(frozen=True, slots=True)
class _Width:
    """How PTX writes one width.

    Attributes:
        suffix: vector and type of the instruction.
        words: registers per value.
        word: numba type of a register.
        constraint: its letter in the constraints of inline assembly.
    """

    suffix: str
    words: int
    word: Any
    constraint: str

    @property
    def value(self) -> Any:
        """Numba type of a value."""
        return types.UniTuple(self.word, self.words) if self.words > 1 else self.word

    @property
    def register(self) -> ir.Type:
        return ir.IntType(self.word.bitwidth)

    def operand(self, first: int) -> str:
        """The placeholders of a value, the first of them being `$first`."""
        names = ", ".join(f"${first + i}" for i in range(self.words))
        return f"{{{names}}}" if self.words > 1 else names


_WIDTHS = {
    16: _Width("v2.u64", 2, types.int64, "l"),
    8: _Width("u64", 1, types.int64, "l"),
    4: _Width("u32", 1, types.int32, "r"),
    1: _Width("u8", 1, types.int32, "r"),
}


def access(width_bytes: int, load_hint: str = STREAMING) -> Access:
    """The accesses of one width (16, 8, 4 or 1 bytes), with a cache hint on the loads, or none if it is empty."""
    width = _WIDTHS[width_bytes]
    load = ".".join(filter(None, ("ld.global", load_hint, width.suffix)))
    store = f"st.global.{width.suffix}"
    return Access(
        width_bytes,
        load=_load(width, load, conditional=False),
        store=_store(width, store, conditional=False),
        load_if=_load(width, load, conditional=True),
        store_if=_store(width, store, conditional=True),
    )


def _load(width: _Width, opcode: str, *, conditional: bool) -> Intrinsic:
    words = width.words
    text = f"{opcode} {width.operand(0)}, [${words}];"
    if conditional:
        # A register that only a predicated instruction writes counts as live from the start of the kernel: without the
        # zeros, which cost next to nothing, the conditional loads need twice the registers and spill.
        zeros = " ".join(f"mov.b{width.word.bitwidth} ${i}, 0;" for i in range(words))
        text = _guarded(text, words + 1, zeros)
    constraints = ",".join([f"=&{width.constraint}"] * words + ["l"] + ["r"] * conditional)
    result = ir.LiteralStructType([width.register] * words) if words > 1 else width.register

    def lower(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        address, *conditions = arguments
        value = _assemble(builder, result, (text, constraints), [address, *_flags(builder, conditions)])
        if words == 1:
            return value
        return context.make_tuple(
            builder, signature.return_type, [builder.extract_value(value, i) for i in range(words)]
        )

    return _intrinsic(width.value(types.int64, *[types.boolean] * conditional), lower)


def _store(width: _Width, opcode: str, *, conditional: bool) -> Intrinsic:
    words = width.words
    text = f"{opcode} [$0], {width.operand(1)};"
    if conditional:
        text = _guarded(text, words + 1)
    constraints = ",".join(["l"] + [width.constraint] * words + ["r"] * conditional)

    def lower(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        address, value, *conditions = arguments
        registers = [builder.extract_value(value, i) for i in range(words)] if words > 1 else [value]
        _assemble(builder, ir.VoidType(), (text, constraints), [address, *registers, *_flags(builder, conditions)])
        return context.get_dummy_value()

    return _intrinsic(types.void(types.int64, width.value, *[types.boolean] * conditional), lower)


def _read(source: str) -> Intrinsic:
    """A 64-bit constant or special register."""

    def lower(_context: Any, builder: ir.IRBuilder, _signature: Any, _arguments: Any) -> Any:
        return _assemble(builder, ir.IntType(64), (f"mov.u64 $0, {source};", "=l"), [])

    return _intrinsic(types.int64(), lower)


def _guarded(instruction: str, operand: int, before: str = "") -> str:
    """An instruction that runs only if an operand is not zero, after some that always run."""
    return f"{{ .reg .pred p; {before} setp.ne.s32 p, ${operand}, 0; @p {instruction} }}"


def _flags(builder: ir.IRBuilder, conditions: list[Any]) -> list[Any]:
    return [builder.zext(condition, ir.IntType(32)) for condition in conditions]


def _assemble(builder: ir.IRBuilder, result: ir.Type, code: tuple[str, str], operands: list[Any]) -> Any:
    """Emits inline assembly (text and constraints) that keeps its place among the others."""
    kind = ir.FunctionType(result, [operand.type for operand in operands])
    return builder.call(ir.InlineAsm(kind, *code, side_effect=True), operands)


def _intrinsic(signature: Any, lower: Callable[..., Any]) -> Intrinsic:
    result = signature, lower
    # numba takes the arity from the parameters of the definition.
    definitions = (
        lambda _typing: result,
        lambda _typing, _a: result,
        lambda _typing, _a, _b: result,
        lambda _typing, _a, _b, _c: result,
    )
    made: Intrinsic = intrinsic(definitions[len(signature.args)])
    return made


warp_size = _read("WARP_SZ")
"""`warp_size() -> int64`: threads per warp, a constant to ptxas but not to the compiler before it, which would unroll
loops that are unrolled already, and spill."""

global_timer = _read("%globaltimer")
"""`global_timer() -> int64`: nanoseconds of a clock that all SMs share. PTX leaves its resolution to the device: some
GPUs step it every 32 ns, some about once in a microsecond."""
