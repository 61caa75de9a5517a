"""The thread of the second direction."""

import threading
import time

import pytest

from pega_tune.autotune.cuda.submission import SubmissionThread


def test_work_runs_in_one_thread_of_its_own_that_has_been_made_ready() -> None:
    ready: list[int] = []
    with SubmissionThread(lambda: ready.append(threading.get_ident())) as thread:
        idents = []
        for _ in range(3):
            with thread.beside(threading.get_ident) as found:
                pass
            idents.append(found.result())
    assert idents == ready * 3
    assert threading.get_ident() not in idents


def test_a_block_that_raises_waits_for_the_work() -> None:
    done = threading.Event()

    def work() -> None:
        time.sleep(0.05)
        done.set()

    with SubmissionThread(lambda: None) as thread, pytest.raises(ValueError, match="own"), thread.beside(work):
        raise ValueError("own")
    assert done.is_set()


def test_what_the_work_raises_is_told_by_its_result() -> None:
    def work() -> None:
        raise ValueError("theirs")

    with SubmissionThread(lambda: None) as thread:
        with thread.beside(work) as found:
            pass
        with pytest.raises(ValueError, match="theirs"):
            found.result()


def test_its_processor_time_is_counted_and_not_the_time_that_it_sleeps() -> None:
    def spin() -> None:
        begin_s = time.thread_time()
        while time.thread_time() - begin_s < 0.02:
            pass

    with SubmissionThread(lambda: None) as thread:
        for work in (spin, lambda: time.sleep(0.5)):
            with thread.beside(work):
                pass
    assert 0.02 <= thread.cpu_s < 0.2
