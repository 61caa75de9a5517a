"""The stored form of a policy: canonical JSON, deflated. Plans, options and option lists are written once.

The JSON object holds `format`; `plans`; `options`, one column per number and one for the index of the plan; `lists`
of indices of options; and `tables`, whose cells are indices of lists. Options and lists are numbered as they first
occur, so their indices mostly count up: each is written as the difference from the one before it (in `lists`, across
lists), which deflates to a fraction. Times keep 6 significant digits, far more than was measured.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from reprlib import repr as shorten
from typing import Any, TypeVar

from pega_tune.errors import UsageError
from pega_tune.kernels.plan import AnyPlan, plan_from_json
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.errors import PolicyFormatError
from pega_tune.profiles.policy.table import CompiledPolicy, Option, Predicted, Table
from pega_tune.profiles.policy.terms import Colocation, Runtime

FORMAT = 2
MAX_INFLATED_BYTES = 16 << 20  # several times the largest policy; a small blob must not fill the memory

_TIMES = ("time_s", "stall_s", "extra_s", "completion_p99_s")
_EDGES = ("range_edges", "size_edges", "measured_ranges", "measured_sizes", "measured_bytes")
_TABLE_KEYS = frozenset(("direction", "colocation", "runtime", *_EDGES, "margin", "step_s", "cells"))
_NUMBERS_OF_A_PLAN = ("threads", "max_grid_blocks", "chunk_descriptors", "chunk_bytes", "stream_priority")

T = TypeVar("T")


def digest(blob: bytes) -> str:
    """SHA-256 of an encoded policy, hex."""
    return hashlib.sha256(blob).hexdigest()


def encode(policy: CompiledPolicy) -> bytes:
    """The stored form. Equal policies give equal bytes under one build of zlib; times are rounded to 6 digits."""
    pool = _Pool()
    tables = [_table_to_json(table, pool) for table in policy.tables]
    columns = zip(*pool.options, strict=True) if pool.options else [()] * (1 + len(_TIMES))
    content = {
        "format": FORMAT,
        "plans": [plan.to_json() for plan in pool.plans],
        "options": dict(zip(("plan", *_TIMES), columns, strict=True)),
        "lists": _differences(pool.lists),
        "tables": tables,
    }
    return zlib.compress(_canonical(content).encode(), level=9)


def decode(blob: bytes) -> CompiledPolicy:
    """Inverse of `encode`; checks everything.

    Raises:
        PolicyFormatError: damaged, contradicting itself, or of another format; the message says what is wrong where.
    """
    try:
        content = json.loads(_inflate(blob), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise PolicyFormatError(f"the policy is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise PolicyFormatError("the policy is not a JSON object")
    _check_format(content.get("format"))
    _check_keys("the policy", content, {"format", "plans", "options", "lists", "tables"})
    plans = _each("plan", content["plans"], _plan_from_json)
    options = _options_from_json(content["options"], plans)
    lists = _each("option list", _indices(content["lists"]), lambda entry: _select("option", entry, options))
    return CompiledPolicy(_each("table", content["tables"], lambda entry: _table_from_json(entry, lists)))


class _Pool:
    """Plans, options and lists by content, numbered in the order of their first use."""

    def __init__(self) -> None:
        self.plans: dict[AnyPlan, int] = {}
        self.options: dict[tuple[float | None, ...], int] = {}
        self.lists: dict[tuple[int, ...], int] = {}

    def add(self, options: tuple[Option, ...]) -> int:
        entry = tuple(self._add_option(option) for option in options)
        return self.lists.setdefault(entry, len(self.lists))

    def _add_option(self, option: Option) -> int:
        plan = self.plans.setdefault(option.plan, len(self.plans))
        times = (_rounded(getattr(option.predicted, name)) for name in _TIMES)
        return self.options.setdefault((plan, *times), len(self.options))


def _table_to_json(table: Table, pool: _Pool) -> dict[str, Any]:
    return {
        "direction": table.direction,
        "colocation": table.colocation,
        "runtime": table.runtime,
        **{name: getattr(table, name) for name in _EDGES},
        "margin": _rounded(table.margin),
        "step_s": _rounded(table.step_s),
        "cells": _differences([[pool.add(options) for options in table.cells]])[0],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}") + 0.0  # -0.0 becomes 0.0: equal values, equal bytes


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _inflate(blob: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(blob, MAX_INFLATED_BYTES)
    except zlib.error as error:
        raise PolicyFormatError(f"the policy is damaged: {error}") from None
    if inflater.unconsumed_tail:
        raise PolicyFormatError(f"the policy is larger than {MAX_INFLATED_BYTES} bytes")
    if not inflater.eof or inflater.unused_data:
        raise PolicyFormatError("the policy is cut short" if not inflater.eof else "the policy has bytes after its end")
    return text


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _check_format(found: object) -> None:
    if type(found) is not int or found < 1:
        raise PolicyFormatError("the policy does not say its format")
    if found > FORMAT:
        raise PolicyFormatError(
            f"the policy has format {found}, this version reads up to {FORMAT}", "install the pega-tune that wrote it"
        )
    if found < FORMAT:
        raise PolicyFormatError(
            f"the policy has format {found}, this version reads {FORMAT}", "make it again with pega-tune sweep"
        )


def _check_keys(what: str, content: Mapping[str, Any], wanted: set[str] | frozenset[str]) -> None:
    if missing := sorted(wanted - set(content)):
        raise PolicyFormatError(f"{what} lacks {', '.join(missing)}")
    if unknown := sorted(set(content) - wanted):
        raise PolicyFormatError(f"{what} has unknown {', '.join(map(shorten, unknown))}")


def _each(what: str, entries: object, parse: Callable[[Any], T]) -> tuple[T, ...]:
    """Parses a list; an entry of the wrong type or value is named by its position."""
    parsed = []
    for index, entry in enumerate(_list(f"{what}s", entries)):
        try:
            parsed.append(parse(entry))
        except (UsageError, PolicyFormatError) as error:
            raise PolicyFormatError(f"{what} {index}: {error.message}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise PolicyFormatError(f"{what} {index} is malformed: {error}") from None
    return tuple(parsed)


def _plan_from_json(entry: Any) -> AnyPlan:
    plan = plan_from_json(entry)
    for leg in (entry["load"], entry["save"]) if "load" in entry else (entry,):
        for name in _NUMBERS_OF_A_PLAN:
            if leg[name] is not None:
                _whole(leg[name])
    if plan.to_json() != entry:  # says more than the plan does
        raise PolicyFormatError("it has unknown or contradicting entries")
    return plan


def _options_from_json(columns: Any, plans: tuple[AnyPlan, ...]) -> tuple[Option, ...]:
    if not isinstance(columns, dict):
        raise PolicyFormatError("the options are not columns")
    _check_keys("the options", columns, {"plan", *_TIMES})
    if len({len(_list(name, column)) for name, column in columns.items()}) != 1:
        raise PolicyFormatError("the columns of the options differ in length")
    rows = list(zip(columns["plan"], *(columns[name] for name in _TIMES), strict=True))
    return _each("option", rows, lambda row: _option_from_row(row, plans))


def _option_from_row(row: tuple[Any, ...], plans: tuple[AnyPlan, ...]) -> Option:
    plan, time_s, *serving = row
    times = (None if value is None else _number(value) for value in serving)
    return Option(_select("plan", (plan,), plans)[0], Predicted(_number(time_s), *times))


def _table_from_json(entry: Any, lists: tuple[tuple[Option, ...], ...]) -> Table:
    if not isinstance(entry, dict):
        raise PolicyFormatError("it is not a JSON object")
    _check_keys("it", entry, _TABLE_KEYS)
    range_edges, size_edges, *measured = (tuple(_whole(value) for value in entry[name]) for name in _EDGES)
    ranges, sizes, totals = ((low, high) for low, high in measured)
    return Table(
        direction=Direction(entry["direction"]),
        colocation=Colocation(entry["colocation"]),
        runtime=Runtime(entry["runtime"]),
        range_edges=range_edges,
        size_edges=size_edges,
        cells=_select("option list", _indices([entry["cells"]])[0], lists),
        measured_ranges=ranges,
        measured_sizes=sizes,
        measured_bytes=totals,
        margin=_number(entry["margin"]),
        step_s=None if entry["step_s"] is None else _number(entry["step_s"]),
    )


def _differences(groups: Iterable[Sequence[int]]) -> list[list[int]]:
    """Every index less the one before it, across groups; the first is less 0."""
    previous = 0
    differences = []
    for group in groups:
        differences.append([index - before for before, index in pairwise((previous, *group))])
        previous = group[-1]
    return differences


def _indices(groups: Any) -> list[list[int]]:
    """Inverse of `_differences`."""
    current = 0
    indices = []
    for group in _list("indices", groups):
        sums = list(accumulate(map(_whole, _list("indices", group)), initial=current))
        indices.append(sums[1:])
        current = sums[-1]
    return indices


def _select(what: str, indices: Iterable[Any], items: tuple[T, ...]) -> tuple[T, ...]:
    selected = tuple(_whole(index) for index in indices)
    if unknown := [index for index in selected if not 0 <= index < len(items)]:
        raise PolicyFormatError(f"there is no {what} {unknown[0]}")
    return tuple(items[index] for index in selected)


def _list(what: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PolicyFormatError(f"the {what} are not a list")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:  # neither True nor 1.0
        raise PolicyFormatError(f"{shorten(value)} is no whole number")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise PolicyFormatError(f"{shorten(value)} is no number")
    return float(value)
