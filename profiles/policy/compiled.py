"""The stored form of a policy: canonical JSON, deflated. Plans, options and option lists are written once.

The JSON object holds `format`; `plans`; `options`, one column per number, one for the index of the plan and one for
`fitted`; `lists` of indices of options; `sources`, the keys of measured blocks; and `tables`, whose cells are indices
of lists, whose sources are indices of `sources`, and whose evidence is indices of their own sources. All are numbered
as they first occur, so their indices mostly count up: each is written as the difference from the one before it (in
`lists`, across lists), which deflates to a fraction. Times keep 6 significant digits, far more than was measured.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from reprlib import repr as shorten
from typing import Any

from pega_tune.kernels.plan import MAX_GRID_BLOCKS, MAX_THREADS, AnyPlan, plan_from_json
from pega_tune.kernels.shape import MAX_BYTES, Direction
from pega_tune.profiles.policy.checked import check_keys, each, item, list_of, number, select, text, whole
from pega_tune.profiles.policy.errors import PolicyFormatError
from pega_tune.profiles.policy.strict_json import load
from pega_tune.profiles.policy.table import CompiledPolicy, Option, Predicted, Table
from pega_tune.profiles.policy.terms import Colocation, Hint, Runtime

FORMAT = 3

# Twice the largest policy, which is 512 KiB deflated; a small blob must not fill the memory.
MAX_INFLATED_BYTES = 8 << 20
MAX_CONTAINERS = 1 << 17  # an empty object takes 2 bytes there and 64 here
MAX_VALUES = 1 << 20  # tables of 163,052 bytes, deflated, have 264,849: what an H200 measured on 2026-11-30
MAX_QUOTES = 1 << 16  # a text takes 3 bytes there and 50 here; the tables of that H200 have 6672

_TIMES = ("time_s", "stall_s", "extra_s", "completion_p99_s")
_EDGES = ("range_edges", "size_edges", "measured_ranges", "measured_sizes", "measured_bytes")
_COLUMNS = ("plan", *_TIMES, "fitted")
_KINDS = ("direction", "colocation", "runtime", "hint")
_INDICES = ("cells", "sources", "evidence")
_TABLE_KEYS = frozenset((*_KINDS, *_EDGES, "margin", "step_s", *_INDICES))
# Of a plan. Devices have stream priorities of -5 to 0 (`cuCtxGetStreamPriorityRange`).
_NUMBERS = {
    "threads": (1, MAX_THREADS),
    "max_grid_blocks": (1, MAX_GRID_BLOCKS),
    "chunk_descriptors": (1, MAX_BYTES),
    "chunk_bytes": (1, MAX_BYTES),
    "stream_priority": (-100, 0),
}


def digest(blob: bytes) -> str:
    """SHA-256 of an encoded policy, hex."""
    return hashlib.sha256(blob).hexdigest()


def encode(policy: CompiledPolicy) -> bytes:
    """The stored form. Equal policies give equal bytes under one build of zlib; times are rounded to 6 digits."""
    pool = _Pool()
    tables = [_table_to_json(table, pool) for table in policy.tables]
    columns = zip(*pool.options, strict=True) if pool.options else [()] * len(_COLUMNS)
    content = {
        "format": FORMAT,
        "plans": [plan.to_json() for plan in pool.plans],
        "options": dict(zip(_COLUMNS, columns, strict=True)),
        "lists": _differences(pool.lists),
        "sources": list(pool.sources),
        "tables": tables,
    }
    return zlib.compress(_canonical(content).encode(), level=9)


def decode(blob: bytes) -> CompiledPolicy:
    """Inverse of `encode`; checks everything.

    Raises:
        PolicyFormatError: damaged, contradicting itself, or of another format; the message says what is wrong where.
    """
    try:
        content = load(_inflate(blob))
    except (ValueError, RecursionError) as error:
        raise PolicyFormatError(f"the policy is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise PolicyFormatError("the policy is not a JSON object")
    _check_format(content.get("format"))
    check_keys("the policy", content, {"format", "plans", "options", "lists", "sources", "tables"})
    plans = each("plan", content["plans"], _plan_from_json)
    options = _options_from_json(content["options"], plans)
    lists = each("option list", _indices(content["lists"]), lambda entry: select("option", entry, options))
    sources = each("source", content["sources"], text)
    return CompiledPolicy(each("table", content["tables"], lambda entry: _table_from_json(entry, lists, sources)))


class _Pool:
    """Plans, options, lists and sources by content, numbered in the order of their first use."""

    def __init__(self) -> None:
        self.plans: dict[AnyPlan, int] = {}
        self.options: dict[tuple[float | None, ...], int] = {}
        self.lists: dict[tuple[int, ...], int] = {}
        self.sources: dict[str, int] = {}

    def add(self, options: tuple[Option, ...]) -> int:
        entry = tuple(self._add_option(option) for option in options)
        return self.lists.setdefault(entry, len(self.lists))

    def add_source(self, key: str) -> int:
        return self.sources.setdefault(key, len(self.sources))

    def _add_option(self, option: Option) -> int:
        plan = self.plans.setdefault(option.plan, len(self.plans))
        times = (_rounded(getattr(option.predicted, name)) for name in _TIMES)
        return self.options.setdefault((plan, *times, option.fitted), len(self.options))


def _table_to_json(table: Table, pool: _Pool) -> dict[str, Any]:
    return {
        **{name: getattr(table, name) for name in (*_KINDS, *_EDGES)},
        "margin": _rounded(table.margin),
        "step_s": _rounded(table.step_s),
        "cells": _differences([[pool.add(options) for options in table.cells]])[0],
        "sources": _differences([[pool.add_source(key) for key in table.sources]])[0],
        "evidence": _differences([table.evidence])[0],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}") + 0.0  # -0.0 becomes 0.0: equal values, equal bytes


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _inflate(blob: bytes) -> str:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(blob, MAX_INFLATED_BYTES)
    except zlib.error as error:
        raise PolicyFormatError(f"the policy is damaged: {error}") from None
    if inflater.unconsumed_tail:
        raise PolicyFormatError(f"the policy is larger than {MAX_INFLATED_BYTES} bytes")
    if not inflater.eof or inflater.unused_data:
        raise PolicyFormatError("the policy is cut short" if not inflater.eof else "the policy has bytes after its end")
    _check_size(inflated)
    if not inflated.isascii():
        raise PolicyFormatError("the policy is not ASCII text")
    return inflated.decode("ascii")


def _check_size(inflated: bytes) -> None:
    """Bounds the memory that reading the text takes; signs inside of texts count, too."""
    if inflated.count(b"{") + inflated.count(b"[") > MAX_CONTAINERS:
        raise PolicyFormatError(f"the policy has more than {MAX_CONTAINERS} lists and objects")
    if inflated.count(b",") >= MAX_VALUES:
        raise PolicyFormatError(f"the policy has more than {MAX_VALUES} values")
    if inflated.count(b'"') > MAX_QUOTES:
        raise PolicyFormatError(f"the policy has more than {MAX_QUOTES} quotation marks")


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


def _plan_from_json(entry: Any) -> AnyPlan:
    plan = plan_from_json(entry)
    for leg in (entry["load"], entry["save"]) if "load" in entry else (entry,):
        for name, (low, high) in _NUMBERS.items():
            if leg[name] is not None and not low <= whole(leg[name]) <= high:
                raise PolicyFormatError(f"{name} is {low} to {high}, not {shorten(leg[name])}")
    if plan.to_json() != entry:  # says more than the plan does
        raise PolicyFormatError("it has unknown or contradicting entries")
    return plan


def _options_from_json(columns: Any, plans: tuple[AnyPlan, ...]) -> tuple[Option, ...]:
    if not isinstance(columns, dict):
        raise PolicyFormatError("the options are not columns")
    check_keys("the options", columns, set(_COLUMNS))
    if len({len(list_of(name, column)) for name, column in columns.items()}) != 1:
        raise PolicyFormatError("the columns of the options differ in length")
    rows = list(zip(*(columns[name] for name in _COLUMNS), strict=True))
    return each("option", rows, lambda row: _option_from_row(row, plans))


def _option_from_row(row: tuple[Any, ...], plans: tuple[AnyPlan, ...]) -> Option:
    plan, time_s, *serving, fitted = row
    times = [None if value is None else number(value) for value in serving]
    if not isinstance(fitted, bool):
        raise PolicyFormatError(f"fitted is true or false, not {shorten(fitted)}")
    return Option(item("plan", plan, plans), Predicted(number(time_s), *times), fitted)


def _table_from_json(entry: Any, lists: tuple[tuple[Option, ...], ...], sources: tuple[str, ...]) -> Table:
    if not isinstance(entry, dict):
        raise PolicyFormatError("it is not a JSON object")
    check_keys("it", entry, _TABLE_KEYS)
    range_edges, size_edges, *measured = (tuple(whole(value) for value in entry[name]) for name in _EDGES)
    ranges, sizes, totals = ((low, high) for low, high in measured)
    cells, blocks, evidence = (_indices([entry[name]])[0] for name in _INDICES)
    return Table(
        direction=Direction(entry["direction"]),
        colocation=Colocation(entry["colocation"]),
        runtime=Runtime(entry["runtime"]),
        range_edges=range_edges,
        size_edges=size_edges,
        cells=select("option list", cells, lists),
        measured_ranges=ranges,
        measured_sizes=sizes,
        measured_bytes=totals,
        margin=number(entry["margin"]),
        step_s=None if entry["step_s"] is None else number(entry["step_s"]),
        hint=Hint(entry["hint"]),
        sources=select("source", blocks, sources),
        evidence=tuple(evidence),
    )


def _differences(groups: Iterable[Sequence[int]]) -> list[list[int]]:
    """Every index less the one before it, across groups; the first is less 0."""
    previous = 0
    differences = []
    for group in groups:
        differences.append([index - before for before, index in pairwise((previous, *group))])
        previous = group[-1] if group else previous
    return differences


def _indices(groups: Any) -> list[list[int]]:
    """Inverse of `_differences`."""
    current = 0
    indices = []
    for group in list_of("indices", groups):
        sums = list(accumulate(map(whole, list_of("indices", group)), initial=current))
        indices.append(sums[1:])
        current = sums[-1]
    return indices
