"""Keeps the link of the first GPU busy with copies both ways until it is ended.

python -m tests.helpers.gpu_hog [SECONDS]
"""

import sys
import time
from contextlib import ExitStack

from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.memory import DeviceMemory, PinnedMemory
from pega_tune.kernels.stream import Stream

NBYTES = 256 << 20


def main(seconds: float = 3600.0) -> None:
    """Copies without pause."""
    with ExitStack() as stack:
        stack.enter_context(PrimaryContext(0))
        device = [stack.enter_context(DeviceMemory(NBYTES)) for _ in range(2)]
        host = [stack.enter_context(PinnedMemory(NBYTES)) for _ in range(2)]
        streams = [stack.enter_context(Stream()) for _ in range(2)]
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            streams[0].copy_to_device(device[0].address, host[0].address, NBYTES)
            streams[1].copy_to_host(host[1].address, device[1].address, NBYTES)
            for stream in streams:
                stream.synchronize()


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
