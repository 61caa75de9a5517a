"""Real child processes, without a GPU: they work, crash, hang, and say what is wrong."""

import multiprocessing
from multiprocessing.connection import Connection

import pytest

from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.batch_probe import Attempt, BatchSupport, probe_batch
from tests.helpers import batch_attempts as attempts

ENOUGH_S = 60.0


@pytest.mark.parametrize(("ordinal", "signature"), [(0, BatchSignature.V1), (1, BatchSignature.V2)])
@pytest.mark.parametrize("attempt", [attempts.works, attempts.works_noisily])
def test_what_works_is_supported(attempt: Attempt, ordinal: int, signature: BatchSignature) -> None:
    assert probe_batch(ordinal, attempt, ENOUGH_S) == BatchSupport(True, signature)


@pytest.mark.parametrize(
    ("attempt", "reason"),
    [
        (attempts.crashes, "the probe was killed by SIGSEGV"),
        (attempts.crashes_on_leaving, "the probe was killed by SIGSEGV"),
        (attempts.leaves, "the probe ended with code 3"),
        (attempts.leaves_silently, "the probe ended without an answer"),
        (attempts.moves_wrong_bytes, "batched copies of 5 ranges moved wrong bytes"),
        (attempts.is_refused, "cuMemcpyBatchAsync failed with CUDA_ERROR_INVALID_VALUE"),
        (attempts.has_a_bug, "the probe failed: KeyError: 'first\\nsecond'"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_does_not_is_unsupported_here(attempt: Attempt, reason: str) -> None:
    assert probe_batch(0, attempt, ENOUGH_S) == BatchSupport(False, None, reason)


def test_a_child_that_hangs_is_killed() -> None:
    assert probe_batch(0, attempts.hangs, 0.5) == BatchSupport.no("the probe did not end within 0.5 s")


def test_the_reason_is_one_line() -> None:
    reason = BatchSupport.no("one\n\n  two " + "x" * 1000).reason
    assert reason.startswith("one two xxx")
    assert len(reason) == 200


def test_without_a_device_of_that_number_the_real_trial_says_so() -> None:
    support = probe_batch(999, timeout_s=ENOUGH_S)
    assert not support.supported
    assert "driver" in support.reason or "cuDeviceGet" in support.reason or "cuInit" in support.reason


def _probe(connection: "Connection[object, object]") -> None:
    connection.send(probe_batch(1, attempts.works, ENOUGH_S))


def test_a_daemonic_process_can_probe_too() -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_probe, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        assert ours.recv() == BatchSupport(True, BatchSignature.V2)
    finally:
        process.join()
        ours.close()
