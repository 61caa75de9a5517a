import threading
from collections.abc import Sequence
from itertools import count

import pytest

from pega_tune.autotune.cuda.submission import BUSY_COPIES, SubmissionThread
from pega_tune.autotune.cuda.timing import Timing, time_moving, time_transfer


class Clock:
    """A clock that work takes forward."""

    def __init__(self) -> None:
        self.now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns


class FakeRun:
    """Preparing takes 20 us, submitting 30 us, and waiting 100 us."""

    copies = 0

    def __init__(self, name: str, log: list[str], clock: Clock | None = None, device_s: float = 1e-3) -> None:
        self._name, self._log, self._device_s = name, log, device_s
        self._clock = clock or Clock()

    def rehearse(self) -> None:
        self._do("rehearse", 500)

    def prepare(self) -> None:
        self._do("prepare", 20)

    def submit(self) -> None:
        self._do("submit", 30)

    def wait(self, others: Sequence["FakeRun"] = ()) -> float:
        self._do(f"wait {', '.join(run._name for run in others)} and", 100)
        return 0.25

    def device_s(self) -> float:
        return self._device_s

    def _do(self, what: str, us: int) -> None:
        self._log.append(f"{what} {self._name}")
        self._clock.now_ns += us * 1000


def test_the_parts_of_a_transfer() -> None:
    clock = Clock()
    assert time_transfer([FakeRun("load", [], clock)], clock) == Timing(
        transfer_s=pytest.approx(150e-6),  # the rehearsal is not in it
        prepare_s=pytest.approx(20e-6),
        submit_s=pytest.approx(30e-6),
        device_s=1e-3,
        wait_cpu_s=0.25,
        moving_s=pytest.approx(130e-6),
    )


def test_each_direction_is_submitted_as_soon_as_it_is_prepared_and_the_longer_one_counts() -> None:
    log: list[str] = []
    clock = Clock()
    runs = [FakeRun("load", log, clock, 2e-3), FakeRun("save", log, clock, 5e-3)]
    timing = time_transfer(runs, clock, meanwhile=lambda: log.append("meanwhile"))
    assert log == [
        "rehearse load",
        "rehearse save",
        "prepare load",
        "submit load",
        "prepare save",
        "submit save",
        "meanwhile",
        "wait save and load",
    ]
    assert timing == Timing(
        transfer_s=pytest.approx(200e-6),
        prepare_s=pytest.approx(40e-6),
        submit_s=pytest.approx(60e-6),
        device_s=5e-3,
        wait_cpu_s=0.25,
    )


def test_moving_begins_when_everything_is_prepared() -> None:
    log: list[str] = []
    clock = Clock()
    runs = [FakeRun("load", log, clock), FakeRun("save", log, clock)]
    assert time_moving(runs, clock) == pytest.approx(160e-6)
    assert log == ["prepare load", "prepare save", "submit load", "submit save", "wait save and load"]


def test_times_come_from_the_clock_given_alone() -> None:
    ticks = count(0, 1_000_000_000)
    assert time_moving([FakeRun("load", [])], lambda: next(ticks)) == 1.0


class ThreadClock:
    """A clock per thread, all of which begin alike: what two threads do takes as long as the longer one."""

    def __init__(self) -> None:
        self._local = threading.local()

    def __call__(self) -> int:
        return getattr(self._local, "now_ns", 1_000)

    def forward(self, us: int) -> None:
        self._local.now_ns = self() + us * 1000


class BusyRun(FakeRun):
    """One with many copies; it meets the other one while it waits, which two runs in one thread could not."""

    copies = BUSY_COPIES

    def __init__(self, name: str, meeting: threading.Barrier, us: int, clock: ThreadClock) -> None:
        super().__init__(name, [])
        self._meeting, self._us, self._own = meeting, us, clock

    def wait(self, others: Sequence[FakeRun] = ()) -> float:
        assert not others
        self._meeting.wait()
        return super().wait()

    def _do(self, what: str, us: int) -> None:
        if not what.startswith("rehearse"):
            self._own.forward(us + self._us)


@pytest.fixture
def busy() -> tuple[list[BusyRun], ThreadClock]:
    clock, meeting = ThreadClock(), threading.Barrier(2, timeout=30)
    return [BusyRun("load", meeting, 1000, clock), BusyRun("save", meeting, 3000, clock)], clock


def test_busy_directions_are_submitted_beside_each_other(busy: tuple[list[BusyRun], ThreadClock]) -> None:
    runs, clock = busy
    with SubmissionThread(lambda: None) as second:
        timing = time_transfer(runs, clock, second=second)
    assert timing == Timing(
        transfer_s=pytest.approx(9150e-6),
        prepare_s=pytest.approx(3020e-6),
        submit_s=pytest.approx(3030e-6),
        device_s=1e-3,
        wait_cpu_s=0.5,
    )


def test_busy_directions_move_beside_each_other(busy: tuple[list[BusyRun], ThreadClock]) -> None:
    runs, clock = busy
    begins: list[int] = []

    def read() -> int:
        begins.append(clock())
        return begins[-1]

    with SubmissionThread(lambda: None) as second:
        # The second thread's clock has not been taken forward by preparation, which was done in this thread.
        assert time_moving(runs, read, second) == pytest.approx(2130e-6)
    assert begins[0] == 1_000 + 4_040_000


def test_few_copies_are_submitted_by_one_thread(busy: tuple[list[BusyRun], ThreadClock]) -> None:
    threads: set[int] = set()

    class Noted(FakeRun):
        copies = BUSY_COPIES - 1

        def _do(self, _what: str, _us: int) -> None:
            threads.add(threading.get_ident())

    with SubmissionThread(lambda: None) as second:
        time_transfer([Noted("load", []), Noted("save", [])], second=second)
        time_moving([Noted("load", []), Noted("save", [])], second=second)
    assert threads == {threading.get_ident()}
