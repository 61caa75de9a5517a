"""A slow and obvious device: runs programs over buffers of this process, streams in whatever order the rules allow."""

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.commands import Op
from pega_tune.kernels.program import Program

Interval = tuple[int, int]
Bytes = NDArray[np.uint8]


class Events:
    """An event source."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def take(self) -> int:
        self.taken.append(2**63 + 1000 + len(self.taken))
        return self.taken[-1]

    def give_back(self, events: Iterable[int]) -> None:
        raise AssertionError(f"{events} were given back while a program is made")


class Memory:
    """Buffers at their real addresses; an access must lie in one of them."""

    def __init__(self, *buffers: NDArray[Any]) -> None:
        self._buffers = [buffer.reshape(-1).view(np.uint8) for buffer in buffers]

    def view(self, address: int, nbytes: int) -> Bytes:
        for buffer in self._buffers:
            offset = address - buffer.ctypes.data
            if 0 <= offset <= buffer.size - nbytes:
                return buffer[offset : offset + nbytes]
        raise AssertionError(f"{nbytes} bytes at {address:#x} are in no buffer")

    def copy(self, destination: int, source: int, nbytes: int) -> None:
        self.view(destination, nbytes)[:] = self.view(source, nbytes)

    def words(self, address: int, count: int) -> list[int]:
        return self.view(address, 8 * count).view(np.uint64).tolist()


@dataclass(frozen=True)
class Task:
    """One thing that a stream has been given.

    `record` is set on records; `awaits` is the number of the task, a record, that must have run before.
    """

    number: int
    stream: int
    op: Op
    operands: tuple[int, ...] = ()
    record: int | None = None
    awaits: int | None = None

    def copies(self, memory: Memory) -> list[tuple[int, int, int]]:
        """(destination, source, bytes) of what it moves, as memory says when it runs."""
        if self.op in (Op.COPY_TO_DEVICE, Op.COPY_TO_HOST):
            return [self.operands[:3]]  # type: ignore[list-item]
        if self.op is Op.LAUNCH:
            rows = iter(memory.words(*self.arguments()[:1], 3 * self.arguments()[1]))
            return list(zip(rows, rows, rows, strict=True))
        return []

    def reads(self, memory: Memory) -> list[Interval]:
        read = [(source, source + nbytes) for _, source, nbytes in self.copies(memory)]
        if self.op is Op.LAUNCH:
            address, count = self.arguments()
            read.append((address, address + 24 * count))
        return read

    def writes(self, memory: Memory) -> list[Interval]:
        return [(destination, destination + nbytes) for destination, _, nbytes in self.copies(memory)]

    def arguments(self) -> tuple[int, int]:
        """What the kernel gets; they are read from the real memory of the program."""
        pointers = (ctypes.c_uint64 * 2).from_address(self.operands[3])
        first, second = (ctypes.c_uint64.from_address(pointer).value for pointer in pointers)
        return first, second


@dataclass
class Host:
    """Submits the commands of a program one by one."""

    program: Program
    tasks: list[Task] = field(default_factory=list)
    barriers: list[tuple[int, int]] = field(default_factory=list)  # tasks before it, record that it waits for
    _position: int = 0
    _records: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> "Host":
        return cls(program)

    @property
    def done(self) -> bool:
        return self._position == len(self.program)

    def waits_for(self) -> int | None:
        """The record that must have run before the host goes on."""
        op, _, event, *_ = self._command()
        return self._records[event] if op == Op.BARRIER else None

    def step(self) -> list[Task]:
        """Submits the next command; what the streams get."""
        (code, stream, *operands), before = self._command(), len(self.tasks)
        self._position += 1
        op = Op(code)
        if op is Op.BARRIER:
            self.barriers.append((before, self._records[operands[0]]))
        elif op is Op.YIELD:
            pass
        elif op is Op.CALL:
            status = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64)(operands[0])(operands[1])
            assert status == 0, f"host work answered {status}"
        elif op is Op.RECORD:
            self._records[operands[0]] = before
            self.tasks.append(Task(before, stream, op, record=operands[0]))
        elif op is Op.AWAIT:
            self.tasks.append(Task(before, stream, op, awaits=self._records[operands[0]]))
        elif op in (Op.COPIES_TO_DEVICE, Op.COPIES_TO_HOST):
            single = Op.COPY_TO_DEVICE if op is Op.COPIES_TO_DEVICE else Op.COPY_TO_HOST
            first, count = operands[3], operands[4]
            columns = [(ctypes.c_uint64 * count).from_address(column + 8 * first) for column in operands[:3]]
            self.tasks += [Task(before + i, stream, single, row) for i, row in enumerate(zip(*columns, strict=True))]
        else:
            self.tasks.append(Task(before, stream, op, tuple(operands)))
        return self.tasks[before:]

    def _command(self) -> tuple[int, ...]:
        """The next one as it is now: calls may have changed it."""
        return tuple(int(word) for word in self.program.commands[self._position])


def submitted(program: Program) -> Host:
    """The host when all is submitted, waiting for nothing."""
    host = Host.of(program)
    while not host.done:
        host.step()
    return host


Choose = Callable[[list[int]], int]
"""Chooses among streams that can go on, and -1 for the host."""


def run(program: Program, memory: Memory, choose: Choose) -> list[Task]:
    """Runs a program to its end; the tasks in the order in which they ran.

    Raises:
        AssertionError: nothing can go on, or an access is in no buffer.
    """
    host, queues = Host.of(program), dict[int, list[Task]]()
    ran: list[Task] = []
    finished: set[int] = set()
    while not host.done or any(queues.values()):
        able = [stream for stream, queue in queues.items() if queue and queue[0].awaits in finished | {None}]
        if not host.done and host.waits_for() in finished | {None}:
            able.append(-1)
        assert able, "nothing can go on"
        chosen = choose(able)
        if chosen == -1:
            for task in host.step():
                queues.setdefault(task.stream, []).append(task)
            continue
        task = queues[chosen].pop(0)
        for copy in task.copies(memory):
            memory.copy(*copy)
        ran.append(task)
        finished.add(task.number)
    return ran


def orders(seed: int) -> list[Choose]:
    """Ways to interleave: the host far ahead or as slow as can be, one stream or the other first, and at random."""
    random = Random(seed)
    ahead = [lambda able, pick=pick: -1 if -1 in able else pick(able) for pick in (min, max)]
    behind = [lambda able, pick=pick: pick([stream for stream in able if stream >= 0] or able) for pick in (min, max)]
    return [*ahead, *behind, random.choice, random.choice]


def check_order(program: Program, memory: Memory, start: int) -> None:
    """Runs a program in the order of its commands, and refuses races.

    Any two tasks of which one writes what the other reads or writes must be ordered by streams, events and barriers;
    all tasks must come after the record of `start`, and before that of the program's end.
    """
    host = submitted(program)
    barriers = dict[int, list[int]]()
    for before, record in host.barriers:
        barriers.setdefault(before, []).append(record)
    masks: list[int] = []  # for every task those before it, and itself
    last: dict[int, int] = {}
    from_host = 0
    accesses: list[tuple[list[Interval], list[Interval]]] = []
    for task in host.tasks:
        for record in barriers.get(task.number, ()):
            from_host |= masks[record]
        mask = from_host | last.get(task.stream, 0) | 1 << task.number
        if task.awaits is not None:
            mask |= masks[task.awaits]
        masks.append(mask)
        last[task.stream] = mask
        accesses.append((task.reads(memory), task.writes(memory)))
        assert not overlap(*accesses[-1]), "a task reads what it writes"
        for copy in task.copies(memory):
            memory.copy(*copy)
    for (i, first), (j, second) in combinations(enumerate(accesses), 2):
        if overlap(first[1], second[0] + second[1]) or overlap(first[0], second[1]):
            assert masks[j] >> i & 1, f"{host.tasks[i]} and {host.tasks[j]} race"
    begin = next(task.number for task in host.tasks if task.record == start)
    assert all(mask >> begin & 1 for mask in masks), "something may begin before the start"
    assert host.tasks[-1].record == program.end
    assert masks[-1] == (1 << len(masks)) - 1, "something may still run when the program ends"


def overlap(some: list[Interval], others: list[Interval]) -> bool:
    """Whether an interval of one list has bytes in common with one of the other."""
    return any(a < d and c < b for a, b in some for c, d in others)
