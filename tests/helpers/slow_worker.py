"""The transfer worker and a late driver once more, in plain Python: slow, and as obvious as can be."""

from collections import deque
from dataclasses import dataclass
from typing import Any

from pega_tune.kernels.commands import Op
from pega_tune.kernels.driver import DriverFunction
from pega_tune.kernels.program import Program
from tests.helpers.late_driver import ILLEGAL_ADDRESS, NOT_READY, STREAMS, LateCall

F = DriverFunction
FUNCTIONS = {
    Op.COPY_TO_DEVICE: F.MEMCPY_HTOD_ASYNC,
    Op.COPY_TO_HOST: F.MEMCPY_DTOH_ASYNC,
    Op.RECORD: F.EVENT_RECORD,
    Op.AWAIT: F.STREAM_WAIT_EVENT,
    Op.BARRIER: F.EVENT_QUERY,
}


@dataclass(frozen=True)
class Command:
    """One driver call: what it is, and what of it the driver sees. `index` is what its error tells."""

    op: Op
    stream: int
    operands: tuple[int, ...]
    index: int | None


class Failure(Exception):  # noqa: N818 - the errors are the worker's
    """A call that failed."""

    def __init__(self, function: str, status: int, index: int | None) -> None:
        super().__init__(function, status, index)


def commands_of(program: Program) -> deque[Command]:
    """The driver calls of a program, one by one."""
    calls: deque[Command] = deque()
    for position, row in enumerate(program.commands.tolist()):
        op, stream, *operands = row
        if op in (Op.COPIES_TO_DEVICE, Op.COPIES_TO_HOST):
            columns = program.keep[0]
            one = Op.COPY_TO_DEVICE if op == Op.COPIES_TO_DEVICE else Op.COPY_TO_HOST
            for i in range(operands[3], operands[3] + operands[4]):
                calls.append(Command(one, stream, tuple(int(column[i]) for column in columns), i))
        else:
            calls.append(Command(Op(op), stream, tuple(operands), position))
    return calls


class SlowDriver:
    """Streams are lists of functions that say whether they may happen; events remember how long a list was."""

    def __init__(self, fail_at: int | None = None, fail_status: int = 0) -> None:
        self.calls: list[LateCall] = []
        self.streams: dict[int, deque[Any]] = {stream: deque() for stream in range(1, STREAMS + 1)}
        self.marks: dict[int, object] = {}  # event: the mark that must happen
        self.pending: set[object] = set()
        self.fail_at, self.fail_status = fail_at, fail_status
        self.dead = 0

    def run(self, command: Command) -> int:
        """The status of a call."""
        a, b, c, *_ = *command.operands, 0, 0, 0
        stream = command.stream
        match command.op:
            case Op.COPY_TO_DEVICE:
                return self._call(F.MEMCPY_HTOD_ASYNC, (a, b, c, stream)) or self._give(stream, None)
            case Op.COPY_TO_HOST:
                return self._call(F.MEMCPY_DTOH_ASYNC, (a, b, c, stream)) or self._give(stream, None)
            case Op.RECORD:
                return self._call(F.EVENT_RECORD, (a, stream)) or self._record(stream, a)
            case Op.AWAIT:
                return self._call(F.STREAM_WAIT_EVENT, (stream, a)) or self._give(stream, self.marks.get(a))
            case Op.BARRIER:
                status = self._call(F.EVENT_QUERY, (a,))
                return status or (NOT_READY if self.marks.get(a) in self.pending else 0)
            case _:
                raise AssertionError(command)

    def complete(self, stream: int, operations: int) -> None:
        """Lets operations of a stream happen."""
        waiting = self.streams[stream]
        while operations and waiting:
            kind, mark = waiting[0]
            if kind == "await" and mark in self.pending:
                return
            if kind == "mark":
                self.pending.remove(mark)
            waiting.popleft()
            operations -= 1

    def _call(self, function: DriverFunction, arguments: tuple[int, ...]) -> int:
        number = len(self.calls)
        self.calls.append(LateCall(function, arguments))
        if number == self.fail_at:
            if self.fail_status == ILLEGAL_ADDRESS:
                self.dead = self.fail_status
            return self.fail_status
        return self.dead

    def _give(self, stream: int, awaited: object | None) -> int:
        self.streams[stream].append(("await", awaited))
        return 0

    def _record(self, stream: int, event: int) -> int:
        mark = object()
        self.marks[event] = mark
        self.pending.add(mark)
        self.streams[stream].append(("mark", mark))
        return 0


class SlowProgram:
    """A program and how far it is: waiting, running, closing or ended."""

    def __init__(self, program: Program) -> None:
        self.todo = commands_of(program)
        self.end = program.end
        self.streams = {command.stream for command in self.todo if command.op is not Op.BARRIER}
        self.last = self.todo[-1].stream
        self.state = "waiting"
        self.started = self.stop = self.stopped = self.stranded = False
        self.barriers = 0
        self.failure: Failure | None = None

    def closing(self) -> deque[Command]:
        """What finds out when all streams are done; the last of it, when the last one is."""
        calls = []
        for other in sorted(self.streams - {self.last}):
            calls += [(Op.RECORD, other), (Op.AWAIT, self.last)]
        calls += [(Op.RECORD, self.last), (Op.BARRIER, self.last)]
        return deque(Command(op, stream, (self.end,), None) for op, stream in calls)


class SlowJob:
    """A job and its programs."""

    def __init__(self, number: int, programs: list[SlowProgram]) -> None:
        self.number = number
        self.programs = programs
        self.dead: Failure | None = None  # what ended it from outside

    @property
    def failure(self) -> Failure | None:
        """Its own failure first."""
        return next((program.failure for program in self.programs if program.failure), self.dead)

    @property
    def chunks(self) -> int:
        """As of a `JobReport`."""
        return sum(1 + program.barriers for program in self.programs if program.started)

    @property
    def state(self) -> str:
        """As a `JobState`."""
        if self.dead or all(program.state == "ended" for program in self.programs):
            if self.failure:
                return "failed"
            return "cancelled" if any(program.stopped for program in self.programs) else "done"
        return "running" if any(program.started for program in self.programs) else "queued"


class SlowWorker:
    """Goes through the programs in the order of submission, again and again."""

    def __init__(self, driver: SlowDriver) -> None:
        self.driver = driver
        self.jobs: list[SlowJob] = []  # in flight
        self.dead: Failure | None = None

    def submit(self, number: int, programs: list[Program]) -> None:
        """Takes a job."""
        self.jobs.append(SlowJob(number, [SlowProgram(program) for program in programs]))

    def cancel(self, number: int) -> bool:
        """Asks a job to stop."""
        programs = [program for job in self.jobs if job.number == number for program in job.programs]
        for program in programs:
            program.stop = True
        return bool(programs)

    def poll(self) -> list[SlowJob]:
        """One pass; the jobs that ended, in the order in which they did."""
        ended: list[SlowJob] = []
        used: set[int] = set()
        for job in self.jobs:
            for program in job.programs:
                if not self.dead and program.state != "ended":
                    self._move(job, program, used)
                    if program.state == "ended" and all(other.state == "ended" for other in job.programs):
                        ended.append(job)
                if program.state != "ended":
                    used |= program.streams
        self.jobs = [job for job in self.jobs if job not in ended]
        if self.dead:
            for job in self.jobs:
                job.dead = self.dead
            ended += self.jobs
            self.jobs = []
        return ended

    def _move(self, job: SlowJob, program: SlowProgram, used: set[int]) -> None:
        if program.state == "waiting" and program.stop:
            program.state, program.stopped = "ended", True
        if program.state == "waiting" and not program.streams & used:
            program.state, program.started = "running", True
        if program.state == "running":
            self._submit(job, program)
        if program.state == "closing" and not self.dead:
            self._close(program)

    def _submit(self, job: SlowJob, program: SlowProgram) -> None:
        if program.stop:
            program.state, program.stopped, program.todo = "closing", True, program.closing()
            return
        try:
            if self._run(program.todo, program):
                program.state, program.todo = "closing", deque([program.closing()[-1]])
        except Failure as failure:
            program.state, program.failure, program.todo = "closing", failure, program.closing()
            for other in job.programs:
                other.stop = True

    def _close(self, program: SlowProgram) -> None:
        try:
            if self._run(program.todo):
                program.state = "ended"
        except Failure as failure:
            program.state, program.stranded = "ended", True
            if program.failure is None or self.dead:
                program.failure = failure

    def _run(self, todo: deque[Command], program: SlowProgram | None = None) -> bool:
        """Whether all was submitted; counts the barriers on the way for a program."""
        while todo:
            if todo[0].op is Op.YIELD:
                todo.popleft()
                return False
            status = self.driver.run(todo[0])
            if status == NOT_READY:
                return False
            if status:
                failure = Failure(FUNCTIONS[todo[0].op].symbol, status, todo[0].index)
                if status == ILLEGAL_ADDRESS:
                    self.dead = failure
                raise failure
            if todo.popleft().op is Op.BARRIER and program is not None:
                program.barriers += 1
        return True
