"""Waiting for programs to end, in one thread and without the GIL: what backends and their submission never do."""

import ctypes
import time
from array import array
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
from numba import carray, types
from numpy.typing import NDArray

from pega_tune.kernels.commands import WORDS, Op, address_of
from pega_tune.kernels.driver import NOT_READY, SUCCESS, DriverFunction, DriverTable
from pega_tune.kernels.executor import Execution, advance_address, failure, functions_of
from pega_tune.kernels.native import foreign, native, pointer
from pega_tune.kernels.plan import Completion
from pega_tune.kernels.ranges import Addresses

# Passes after which the interpreter may see to its signals: a fraction of a second, for a transfer that lasts.
_PASSES: Final = {Completion.POLL: 100_000, Completion.YIELD: 50_000, Completion.BLOCKING_EVENT: 1}
_HOW: Final = {completion: how for how, completion in enumerate(_PASSES)}
_YIELD, _SLEEP = _HOW[Completion.YIELD], _HOW[Completion.BLOCKING_EVENT]

_SUBMITTING, _CLOSING, _ENDED, _BROKEN, _LOST = range(5)
_EVENT_OF_BARRIER: Final = 2  # word of the command
_BARRIER: Final = np.uint64(Op.BARRIER)
_NOTHING: Final = np.uint64(0)  # no event's handle

_u64 = types.uint64
_advance = foreign(_u64, _u64, _u64, _u64)  # functions, commands, their count, progress
_event_query = foreign(_u64)
_event_synchronize = foreign(_u64)
_sched_yield = foreign()

_FINISHED: Final = np.zeros(2, np.int64)  # progress of no commands


def wait_all(table: DriverTable, executions: Sequence[Execution], completion: Completion = Completion.POLL) -> float:
    """Takes programs past their barriers as soon as these open, and returns when all have ended.

    Programs that give way go on in turn, the last one first, each up to where it gives way again; the thread does not
    sleep meanwhile.

    Args:
        table: the driver.
        executions: of the programs, begun or not.
        completion: `POLL` asks the driver without pause; `YIELD` offers the processor to others between questions;
            `BLOCKING_EVENT` sleeps until an event happens, for which the programs' events must have been made
            blocking (see `Event`), else the driver spins.

    Returns:
        Seconds of processor time that this thread has spent.

    Raises:
        StaleError: a program has not been submitted whole, and its buffers have been prepared anew.
        DriverCallError: as `Execution.advance`, or the work before an end failed; the first of them, when none of the
            programs can go on. What a program that failed has submitted may still be under way.
    """
    for execution in executions:
        execution.require_lease()
    words = array("Q")
    for execution in executions:
        program = execution.program
        addresses = address_of(program.commands), len(program), execution.progress_address
        words.extend((*addresses, program.end))
    rows = np.frombuffer(words, np.uint64).reshape(-1, 4)
    begin = time.thread_time()
    outcomes = _wait(table, rows, completion)
    spent_s = time.thread_time() - begin
    for execution, (phase, status) in zip(executions, outcomes.tolist(), strict=True):
        if phase == _BROKEN:
            raise failure(table, execution.program.commands, status, execution.place)
        if phase == _LOST:
            table.check(DriverFunction.EVENT_QUERY, status)
    return spent_s


def wait_event(table: DriverTable, event: int, completion: Completion = Completion.POLL) -> None:
    """Returns when everything before an event has completed.

    Raises:
        DriverCallError: the work before the event, or the query, failed.
    """
    row = np.array([(0, 0, address_of(_FINISHED), event)], np.uint64)
    table.check(DriverFunction.EVENT_QUERY, int(_wait(table, row, completion)[0, 1]))


def _wait(table: DriverTable, rows: Addresses, completion: Completion) -> NDArray[np.int64]:
    """Phase and status of each of (n, 4) rows: commands, their count, progress, end."""
    outcomes = np.zeros((len(rows), 2), np.int64)
    calls, _functions = _calls(table)
    while not _make_passes(calls, rows, outcomes, (_HOW[completion], _PASSES[completion])):
        pass
    return outcomes


@lru_cache(maxsize=8)
def _calls(table: DriverTable) -> tuple[Addresses, Addresses]:
    """What the native code calls, with the address of what `_advance` wants, and that."""
    functions = functions_of(table)
    calls = (
        advance_address(),
        address_of(functions),
        table.address(DriverFunction.EVENT_QUERY),
        table.address(DriverFunction.EVENT_SYNCHRONIZE),
        _yield_address(),
    )
    return np.array(calls, np.uint64), functions


@cache
def _yield_address() -> int:
    address = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value
    assert address
    return address


@native
def _make_passes(calls: Addresses, rows: Addresses, outcomes: NDArray[np.int64], limits: tuple[int, int]) -> bool:
    """Lets every program go on, again and again; whether all have come to an end."""
    how, passes = limits
    for _ in range(passes):
        ended, idle, awaited = True, True, np.uint64(0)
        for k in range(rows.shape[0] - 1, -1, -1):
            _move(calls, rows[k], outcomes[k])
            if outcomes[k, 0] < _ENDED:
                ended = False
                event = _awaited(rows[k], outcomes[k, 0])
                idle = idle and event != _NOTHING
                awaited = event
        if ended:
            return True
        if how == _YIELD:
            _sched_yield(calls[4], ())
        elif how == _SLEEP and idle:
            # Of several programs on the first: whichever is slept on, what the others wait for may happen meanwhile.
            _event_synchronize(calls[3], (awaited,))
    return False


@native
def _move(calls: Addresses, row: Addresses, outcome: NDArray[np.int64]) -> None:
    """Takes one program as far as it can go now."""
    if outcome[0] == _SUBMITTING:
        status = _advance(calls[0], (calls[1], row[0], row[1], row[2]))
        if status == SUCCESS:
            outcome[0] = _CLOSING
        elif status != NOT_READY:
            outcome[0], outcome[1] = _BROKEN, status
    if outcome[0] == _CLOSING:
        status = _event_query(calls[2], (row[3],))
        if status == SUCCESS:
            outcome[0] = _ENDED
        elif status != NOT_READY:
            outcome[0], outcome[1] = _LOST, status


@native
def _awaited(row: Addresses, phase: int) -> Any:
    """The event that a program waits for; `_NOTHING` if it has given way and could go on."""
    if phase == _CLOSING:
        return row[3]
    position = carray(pointer(row[2]), 2, np.int64)[0]
    words = carray(pointer(row[0]), (position + 1) * WORDS, np.uint64)
    if words[position * WORDS] != _BARRIER:
        return _NOTHING
    return words[position * WORDS + _EVENT_OF_BARRIER]
