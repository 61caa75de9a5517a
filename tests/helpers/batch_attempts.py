"""What a probe's child may do, run there by name."""

import os
import signal
import sys
import time

from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.batch_trial import BatchTrialError
from pega_tune.kernels.driver import DriverCallError

LONG_S = 600


def works(ordinal: int) -> BatchSignature:
    return BatchSignature.V2 if ordinal else BatchSignature.V1


def works_noisily(ordinal: int) -> BatchSignature:
    sys.stdout.write("a library says\nsomething")
    sys.stderr.write("x" * 1_000_000)
    return works(ordinal)


def crashes(_ordinal: int) -> BatchSignature:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("still alive")


def crashes_on_leaving(ordinal: int) -> BatchSignature:
    import atexit

    atexit.register(crashes, ordinal)
    return works(ordinal)


def leaves(_ordinal: int) -> BatchSignature:
    os._exit(3)


def leaves_silently(_ordinal: int) -> BatchSignature:
    os._exit(0)


def hangs(_ordinal: int) -> BatchSignature:
    time.sleep(LONG_S)
    raise AssertionError("nobody ended it")


def moves_wrong_bytes(_ordinal: int) -> BatchSignature:
    raise BatchTrialError("batched copies of 5 ranges moved wrong bytes")


def is_refused(_ordinal: int) -> BatchSignature:
    raise DriverCallError("cuMemcpyBatchAsync", 1, "CUDA_ERROR_INVALID_VALUE")


def has_a_bug(_ordinal: int) -> BatchSignature:
    raise KeyError("first\nsecond")
