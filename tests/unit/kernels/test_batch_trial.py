import numpy as np
import pytest

from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.batch_trial import COUNTS, Arena, BatchCall, BatchTrialError, arena_bytes, exchange
from pega_tune.kernels.driver import DriverCallError
from tests.helpers.moving_driver import STREAM, MovingDriver

NBYTES = arena_bytes()


class Trial:
    def __init__(self, signature: BatchSignature) -> None:
        self.driver = MovingDriver()
        self.finished = 0
        self._call = BatchCall(self.driver.table, signature)
        self._device, outgoing, returning = (np.zeros(NBYTES, np.uint8) for _ in range(3))
        self._arena = Arena(self._device.ctypes.data, outgoing, returning)

    def exchange(self, count: int, stream: int = STREAM) -> None:
        exchange(self._call, self._arena, count, stream, self._finish)

    def _finish(self) -> None:
        self.finished += 1


@pytest.mark.parametrize("signature", BatchSignature)
def test_a_driver_that_copies_passes(signature: BatchSignature) -> None:
    trial = Trial(signature)
    for count in COUNTS:
        trial.exchange(count)
    calls = [1, 1, 5, 5, 4096, 904, 4096, 904]
    assert trial.driver.calls == [(signature.function, size) for size in calls]
    assert trial.finished == len(COUNTS)


@pytest.mark.parametrize(
    ("count", "fault"), [(1, (0, 0)), (1, (1, 0)), (5, (0, 4)), (5000, (0, 4095)), (5000, (3, 903))]
)
def test_one_wrong_byte_is_found(count: int, fault: tuple[int, int]) -> None:
    trial = Trial(BatchSignature.V2)
    trial.driver.fault = fault
    with pytest.raises(BatchTrialError, match=f"{count} ranges moved wrong bytes"):
        trial.exchange(count)


def test_a_driver_that_refuses_is_quoted() -> None:
    with pytest.raises(DriverCallError, match="cuMemcpyBatchAsync failed with 1"):
        Trial(BatchSignature.V2).exchange(5, stream=0)
