"""Recording events from native code: through the interpreter it would cost as much as a small transfer."""

import numpy as np
from numba import types

from pega_tune.kernels.driver import DriverFunction, DriverTable
from pega_tune.kernels.native import foreign, native

_event_record = foreign(types.uint64, types.uint64)  # event, stream


def record_event(table: DriverTable, event: int, stream: int) -> None:
    """Lets an event happen when the work in a stream so far is done.

    Args:
        table: the driver.
        event: CUevent handle.
        stream: CUstream handle.

    Raises:
        DriverCallError: the driver refuses.
    """
    function = DriverFunction.EVENT_RECORD
    table.check(function, _record(table.address(function), np.uint64(event), np.uint64(stream)))


@native
def _record(record: np.uint64, event: np.uint64, stream: np.uint64) -> int:
    return _event_record(record, (event, stream))
