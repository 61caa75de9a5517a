import gc
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pega_tune.errors import UsageError
from pega_tune.kernels.driver import DriverCallError, DriverFunction
from pega_tune.kernels.plan import Completion
from pega_tune.kernels.program import Lease, Program, ProgramBuilder, Route, StaleError
from pega_tune.kernels.worker import TransferWorker
from pega_tune.kernels.worker_states import JobReport, JobState, WorkerFullError
from tests.helpers.late_driver import ILLEGAL_ADDRESS, INVALID_VALUE, LateCall, LateDriver
from tests.helpers.late_programs import Buffers, Events, Work, build, watch

CHUNKED = Work(1, chunks=3)
ONE_CALL = Work(1, way="copies")
QUERY, RECORD, AWAIT = DriverFunction.EVENT_QUERY, DriverFunction.EVENT_RECORD, DriverFunction.STREAM_WAIT_EVENT


class Scene:
    """A worker over a late driver, and the buffers of what it was given."""

    def __init__(self, capacity: int = 16) -> None:
        self.driver = LateDriver()
        self.events = Events()
        self.worker = TransferWorker(self.driver.table, capacity, self.events)
        self.buffers: dict[int, list[Buffers]] = {}

    def program(self, work: Work = CHUNKED) -> Program:
        return build(work, self.events, Buffers(work, 0))

    def submit(self, *works: Work, tag: object = None) -> int:
        buffers = [Buffers(work, seed) for seed, work in enumerate(works)]
        programs = [build(work, self.events, buffer) for work, buffer in zip(works, buffers, strict=True)]
        job = self.worker.submit(programs, tag, sum(work.nbytes for work in works))
        self.buffers[job] = buffers
        return job

    def moved(self, job: int) -> int:
        return sum(buffer.ranges_moved() for buffer in self.buffers[job])

    def run(self) -> list[JobReport]:
        """Polls, letting everything happen in between, until all jobs have ended."""
        reports: list[JobReport] = []
        while len(self.worker):
            reports += self.worker.poll()
            self.driver.complete_all()
        return reports

    def copies(self) -> list[LateCall]:
        return [call for call in self.driver.calls if call.function not in (QUERY, RECORD, AWAIT)]


def states(reports: Sequence[JobReport]) -> dict[int, JobState]:
    return {report.job: report.state for report in reports}


def test_submission_calls_nobody() -> None:
    scene = Scene()
    job = scene.submit(CHUNKED)
    assert scene.driver.calls == []
    assert scene.worker.report(job).state is JobState.QUEUED


def test_a_job_goes_on_chunk_by_chunk_as_events_happen() -> None:
    scene = Scene()
    job = scene.submit(CHUNKED, tag="load")
    for chunks in (1, 2):
        assert scene.worker.poll() == ()
        assert scene.worker.poll() == ()  # asks again, and gives the driver nothing
        assert len(scene.copies()) == 3 * chunks
        assert scene.worker.report(job).state is JobState.RUNNING
        scene.driver.complete_all()
    assert scene.worker.poll() == ()
    assert scene.moved(job) == 6
    scene.driver.complete_all()
    (report,) = scene.worker.poll()
    assert (report.job, report.tag, report.state, report.nbytes) == (job, "load", JobState.DONE, CHUNKED.nbytes)
    assert scene.moved(job) == 9
    assert scene.worker.poll() == ()


def test_times_are_in_order_and_of_the_monotonic_clock() -> None:
    scene = Scene()
    before = time.monotonic()
    scene.submit(CHUNKED)
    (report,) = scene.run()
    assert report.started_s is not None
    assert report.completed_s is not None
    assert before <= report.submitted_s <= report.started_s <= report.completed_s <= time.monotonic()
    assert report.latency_s == report.completed_s - report.submitted_s


def test_a_report_tells_how_many_chunks_there_were_and_what_they_took_the_host() -> None:
    scene = Scene()
    scene.submit(CHUNKED, replace(ONE_CALL, stream=2))
    begin = time.monotonic()
    (report,) = scene.run()
    assert report.chunks == 3 + 1
    assert 0 < report.host_s < time.monotonic() - begin


def test_questions_asked_too_early_are_not_counted() -> None:
    scene = Scene()
    job = scene.submit(CHUNKED)
    scene.worker.poll()
    before = scene.worker.report(job)
    for _ in range(100):
        scene.worker.poll()
    assert scene.worker.report(job) == before
    assert (before.state, before.chunks) == (JobState.RUNNING, 1)
    scene.driver.complete_all()
    scene.worker.poll()
    after = scene.worker.report(job)
    assert after.chunks == 2
    assert after.host_s > before.host_s


def test_jobs_that_give_way_are_submitted_in_turn_and_in_one_chunk() -> None:
    scene = Scene()
    jobs = [scene.submit(Work(stream, chunks=3, backpressure=False, gives_way=True)) for stream in (1, 2)]
    for polls in (1, 2, 3):
        assert scene.worker.poll() == ()
        assert [call.arguments[-1] for call in scene.copies()] == [1, 1, 1, 2, 2, 2] * polls
    scene.driver.complete_all()
    reports = scene.worker.poll()
    assert {report.job: (report.state, report.chunks) for report in reports} == dict.fromkeys(jobs, (JobState.DONE, 1))
    assert all(report.host_s > 0 for report in reports)


def test_both_programs_of_a_job_that_give_way_are_drained_in_turn() -> None:
    scene = Scene()
    scene.driver.hurry(1)
    first = Work(1, chunks=4, backpressure=False, gives_way=True)
    job = scene.submit(first, replace(first, stream=2))
    (report,) = scene.worker.drain()
    assert (report.job, report.state, report.chunks) == (job, JobState.DONE, 1 + 1)
    assert [call.arguments[-1] for call in scene.copies()] == [1, 1, 1, 2, 2, 2] * 4
    assert scene.moved(job) == 24


def test_a_chunk_that_gives_way_before_its_barrier_is_one_chunk() -> None:
    scene = Scene()
    scene.submit(replace(CHUNKED, gives_way=True))
    (report,) = scene.run()
    assert report.chunks == 3


def test_a_job_can_be_cancelled_where_it_gives_way() -> None:
    scene = Scene()
    job = scene.submit(Work(1, chunks=3, backpressure=False, gives_way=True))
    scene.worker.poll()
    scene.worker.cancel(job)
    (report,) = scene.run()
    assert (report.state, report.chunks, scene.moved(job)) == (JobState.CANCELLED, 1, 3)


@pytest.mark.parametrize("chunks", [0, 1, 2])
def test_a_cancelled_job_tells_how_many_chunks_it_came_to(chunks: int) -> None:
    scene = Scene()
    job = scene.submit(CHUNKED)
    for _ in range(chunks):
        scene.driver.complete_all()
        scene.worker.poll()
    scene.worker.cancel(job)
    (report,) = scene.run()
    assert (report.state, report.chunks, report.host_s > 0) == (JobState.CANCELLED, chunks, chunks > 0)


def test_a_program_with_nothing_but_its_end_is_done_with_the_stream() -> None:
    scene = Scene()
    before = scene.submit(ONE_CALL)
    empty = scene.worker.submit([ProgramBuilder(Route(1, 2, scene.events)).finish()])
    assert scene.worker.poll() == ()
    assert states(scene.run()) == {before: JobState.DONE, empty: JobState.DONE}
    assert scene.moved(before) == 3
    assert not scene.events.out


def test_a_stream_takes_one_program_at_a_time_and_others_go_on_beside_it() -> None:
    scene = Scene()
    first, second, beside = scene.submit(ONE_CALL), scene.submit(ONE_CALL), scene.submit(Work(2))
    scene.worker.poll()
    assert [call.arguments[-1] for call in scene.copies()] == [1, 1, 1, 2, 2, 2]
    scene.driver.complete(2, 100)
    assert states(scene.worker.poll()) == {beside: JobState.DONE}
    assert scene.moved(second) == 0
    scene.driver.complete(1, 100)
    assert states(scene.worker.poll()) == {first: JobState.DONE}
    scene.driver.complete(1, 100)
    assert states(scene.worker.poll()) == {second: JobState.DONE}


def test_a_program_waits_for_its_side_stream_too_and_keeps_its_turn() -> None:
    scene = Scene()
    scene.submit(Work(2))
    both = scene.submit(Work(1, side_stream=2, chunks=2, backpressure=False))
    behind = scene.submit(Work(1))
    scene.worker.poll()
    assert {call.arguments[-1] for call in scene.copies()} == {2}
    scene.run()
    owners = {address: job for job in (both, behind) for address in scene.buffers[job][0].columns[0].tolist()}
    order = [owners[call.arguments[0]] for call in scene.copies() if call.arguments[0] in owners]
    assert order == [both] * 6 + [behind] * 3


def test_a_program_has_a_stream_for_itself_that_it_names_and_does_not_use() -> None:
    scene = Scene()
    before = scene.submit(Work(2))
    program = replace(scene.program(), streams=(2, 1))
    named = scene.worker.submit([program])
    scene.worker.poll()
    assert {call.arguments[-1] for call in scene.copies()} == {2}
    scene.driver.complete(2, 100)
    assert states(scene.worker.poll()) == {before: JobState.DONE}
    scene.worker.poll()
    behind = scene.submit(Work(2))
    scene.worker.poll()
    assert scene.copies()[-1].arguments[-1] == 1
    assert scene.worker.cancel(named)
    assert states(scene.run()) == {named: JobState.CANCELLED, behind: JobState.DONE}
    assert [call.arguments for call in scene.driver.calls if call.function is AWAIT] == [(1, program.end)]


def test_both_programs_of_a_job_run_at_once_and_it_ends_with_the_later_one() -> None:
    scene = Scene()
    job = scene.submit(Work(1), Work(2))
    scene.worker.poll()
    scene.driver.complete(2, 100)
    assert scene.worker.poll() == ()
    scene.driver.complete(1, 100)
    assert states(scene.worker.poll()) == {job: JobState.DONE}
    assert scene.moved(job) == 6


def test_a_queued_job_that_is_cancelled_never_reaches_the_driver() -> None:
    scene = Scene()
    first, second = scene.submit(ONE_CALL), scene.submit(ONE_CALL)
    assert scene.worker.cancel(second)
    (report,) = scene.worker.poll()
    assert (report.job, report.state, report.started_s) == (second, JobState.CANCELLED, None)
    assert states(scene.run()) == {first: JobState.DONE}
    assert scene.moved(second) == 0


def test_a_running_job_that_is_cancelled_ends_when_all_its_streams_have() -> None:
    scene = Scene()
    job = scene.submit(Work(1, side_stream=2, chunks=4))
    scene.worker.poll()
    scene.driver.complete(1, 100)
    scene.worker.poll()  # the second chunk, in the side stream
    assert scene.worker.cancel(job)
    assert scene.worker.poll() == ()
    assert len(scene.copies()) == 6
    scene.driver.complete(1, 100)
    assert scene.worker.poll() == ()
    scene.driver.complete(2, 100)
    scene.driver.complete(1, 100)
    assert states(scene.worker.poll()) == {job: JobState.CANCELLED}
    assert scene.moved(job) == 6
    assert not scene.worker.cancel(job)


def test_a_job_that_is_wholly_submitted_cannot_be_cancelled_any_more() -> None:
    scene = Scene()
    job = scene.submit(ONE_CALL)
    scene.worker.poll()
    scene.worker.cancel(job)
    assert scene.worker.poll() == ()
    assert states(scene.run()) == {job: JobState.DONE}


@pytest.mark.parametrize(("call", "function", "index"), [(1, "cuMemcpyHtoDAsync", 1), (3, "cuEventRecord", 1)])
def test_a_failed_job_fails_alone_and_tells_where(call: int, function: str, index: int) -> None:
    scene = Scene()
    bad, behind, beside = scene.submit(ONE_CALL), scene.submit(ONE_CALL), scene.submit(Work(2))
    scene.driver.fail(call, INVALID_VALUE)
    reports = scene.run()
    assert states(reports) == {bad: JobState.FAILED, behind: JobState.DONE, beside: JobState.DONE}
    error = next(report.error for report in reports if report.job == bad)
    assert error is not None
    assert (error.function, error.status, error.name, error.index) == (function, INVALID_VALUE, "1", index)
    assert scene.moved(bad) == min(call, 3)


def test_what_a_failed_job_has_submitted_still_completes_first() -> None:
    scene = Scene()
    job = scene.submit(Work(1, side_stream=2, chunks=2, backpressure=False))
    scene.driver.fail(5, INVALID_VALUE)  # the last copy, which goes to the side stream
    scene.worker.poll()
    scene.driver.complete(1, 100)
    assert scene.worker.poll() == ()
    assert states(scene.run()) == {job: JobState.FAILED}
    assert scene.moved(job) == 5


def test_a_failure_stops_the_other_program_of_its_job_at_the_next_barrier() -> None:
    scene = Scene()
    job = scene.submit(CHUNKED, replace(CHUNKED, stream=2))
    scene.driver.fail(0, INVALID_VALUE)
    assert states(scene.run()) == {job: JobState.FAILED}
    assert scene.moved(job) == 0  # the other one had not begun


def test_a_lost_context_fails_all_jobs_and_takes_no_more() -> None:
    scene = Scene()
    jobs = [scene.submit(work) for work in (ONE_CALL, Work(2), ONE_CALL)]
    scene.worker.poll()
    scene.driver.fail(len(scene.driver.calls) + 1, ILLEGAL_ADDRESS)
    reports = scene.worker.poll()
    assert states(reports) == dict.fromkeys(jobs, JobState.FAILED)
    for report in reports:
        assert report.error is not None
        assert report.error.is_sticky
        assert report.error.function == "cuEventQuery"
    calls = len(scene.driver.calls)
    with pytest.raises(DriverCallError, match="cuEventQuery failed with 700"):
        scene.submit(ONE_CALL)
    assert scene.worker.poll() == scene.worker.drain() == ()
    assert len(scene.driver.calls) == calls
    assert len(scene.worker.stranded) == 2  # those that had begun, of which nobody knows whether they are done
    assert len(scene.worker) == 0


def test_memory_of_a_job_is_kept_until_its_end_and_no_longer() -> None:
    scene = Scene()
    work = Work(1, way="launch")
    buffers = Buffers(work, 0)
    alive = watch(buffers)
    scene.worker.submit([build(work, scene.events, buffers)])
    del buffers
    gc.collect()
    scene.worker.poll()
    assert alive() is not None
    assert scene.events.out
    scene.driver.complete_all()
    assert states(scene.worker.poll()) == {0: JobState.DONE}
    gc.collect()
    assert alive() is None
    assert not scene.events.out


def test_memory_is_kept_for_good_when_the_end_cannot_be_found_out() -> None:
    scene = Scene()
    work = Work(1, way="launch")
    buffers = Buffers(work, 0)
    alive = watch(buffers)
    scene.worker.submit([build(work, scene.events, buffers)])
    del buffers
    scene.driver.fail(2, INVALID_VALUE)  # the first question for the end
    (report,) = scene.worker.poll()
    assert report.error is not None
    assert (report.error.function, report.error.index) == ("cuEventQuery", None)
    gc.collect()
    assert alive() is not None
    assert len(scene.worker.stranded) == 1
    assert scene.events.out


def test_what_cannot_be_run_is_refused() -> None:
    scene = Scene(capacity=2)
    with pytest.raises(UsageError, match="at least 1 job"):
        TransferWorker(scene.driver.table, 0)
    for programs in ([], [scene.program()] * 3):
        with pytest.raises(UsageError, match="1 or 2 programs"):
            scene.worker.submit(programs)
    program = scene.program()
    with pytest.raises(UsageError, match="no commands"):
        scene.worker.submit([replace(program, commands=program.commands[:0])])
    lease = Lease()
    lease.revoked = True
    with pytest.raises(StaleError):
        scene.worker.submit([replace(program, lease=lease)])
    with pytest.raises(UsageError, match="cannot block"):
        scene.worker.drain(Completion.BLOCKING_EVENT)
    with pytest.raises(UsageError, match="not in flight"):
        scene.worker.report(0)
    assert len(scene.worker) == 0


def test_a_full_worker_says_so_and_has_room_again_later() -> None:
    scene = Scene(capacity=2)
    for _ in range(3):
        scene.submit(CHUNKED, replace(CHUNKED, stream=2))
        scene.submit(CHUNKED)
        with pytest.raises(WorkerFullError):
            scene.worker.submit([scene.program()])
        assert len(scene.run()) == 2


def test_a_worker_knows_64_streams() -> None:
    scene = Scene(capacity=100)
    for stream in range(1000, 1064):
        scene.worker.submit([scene.program(Work(stream))])
    with pytest.raises(UsageError, match="64 streams"):
        scene.worker.submit([scene.program(Work(1064))])
    scene.worker.submit([scene.program(Work(1063))])


def test_draining_returns_when_its_time_is_up() -> None:
    scene = Scene()
    job = scene.submit(CHUNKED)
    assert scene.worker.drain(timeout_s=0.01) == ()
    assert scene.worker.report(job).state is JobState.RUNNING


def test_one_thread_polls_while_another_submits() -> None:
    scene = Scene()
    job = scene.submit(ONE_CALL)
    reports: list[JobReport] = []
    drainer = threading.Thread(target=lambda: reports.extend(scene.worker.drain(Completion.YIELD)))
    drainer.start()
    while scene.worker.report(job).state is JobState.QUEUED:
        pass
    with pytest.raises(UsageError, match="another thread"):
        scene.worker.poll()
    late = scene.submit(Work(2))
    while scene.worker.report(late).state is JobState.QUEUED:
        pass
    scene.driver.complete_all()
    drainer.join()
    assert states(reports) == {job: JobState.DONE, late: JobState.DONE}
