"""A connection to a server that is given up once nothing has come from it for too long."""

import math
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg

Result = TypeVar("Result")


class WatchedConnection(psycopg.Connection[Any]):
    """What `tcp_user_timeout` and keepalives do not notice is noticed here: a peer that is there and says nothing.

    Attributes:
        silence_s: how long to wait for the next bytes, in seconds.
    """

    silence_s: float = math.inf

    def wait(self, gen: Generator[Any, Any, Result], *args: Any, **kwargs: Any) -> Result:
        """As the driver's own, which all that is sent and received goes through.

        Raises:
            psycopg.OperationalError: nothing came for `silence_s`; the connection is closed.
        """
        return super().wait(self._watched(gen), *args, **kwargs)

    def _watched(self, steps: Generator[Any, Any, Result]) -> Generator[Any, Any, Result]:
        try:
            wanted = next(steps)
            heard_s = time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    wanted = steps.send(ready)
                    heard_s = time.monotonic()
                elif time.monotonic() - heard_s > self.silence_s:
                    # Whatever comes later would be taken for the answer to something else.
                    self.close()
                    raise psycopg.OperationalError(f"nothing has come from the server for {self.silence_s:g} s")
        except StopIteration as end:
            result: Result = end.value
            return result
