"""Decode in the context of the engine: a thread of its process."""

import contextlib
import threading
from typing import Final

from pega_tune.autotune.cuda.serving.decode import (
    RING_STEPS,
    DecodeStartError,
    ProbeMaker,
    RunningDecode,
    Workload,
)
from pega_tune.errors import PegaTuneError, UsageError
from pega_tune.kernels.decode.ring import StepRing

_STOP_TIMEOUT_S: Final = 20.0
_EXTERNAL: Final = "external:"


class SameContextDecode(RunningDecode):
    """A probe on a thread of this process; its loop never takes the interpreter's lock."""

    def __init__(self, workload: Workload, make_probe: ProbeMaker) -> None:
        """Starts it, and returns when its first steps are done.

        Raises:
            UsageError: there is no such workload, or it is a program of its own.
            PegaTuneError: it does not start.
        """
        if workload.spec.source.startswith(_EXTERNAL):
            hint = "measure it time-sliced, or under MPS"
            raise UsageError("an external program cannot decode in the engine's own context", hint)
        super().__init__(StepRing.private(RING_STEPS))
        self._error: PegaTuneError | None = None
        self._make_probe = make_probe
        self._workload = workload
        self._thread = threading.Thread(target=self._live, name="pega-tune-decode", daemon=True)
        self._thread.start()
        try:
            self.wait_until_warm()
        except BaseException:
            self.close()
            raise

    def failure(self) -> PegaTuneError | None:
        """As `RunningDecode.failure`."""
        if self._thread.is_alive():
            return None
        return self._error or DecodeStartError("its thread has ended")

    def close(self) -> None:
        """Stops it after the step under way; a step that does not end is left to the end of the process."""
        self.ring.stop()
        self._thread.join(_STOP_TIMEOUT_S)

    def _live(self) -> None:
        try:
            with contextlib.closing(self._make_probe(self._workload.spec, self._workload.ordinal)) as probe:
                probe.start(self.ring)
                probe.run()
        except PegaTuneError as error:
            self._error = error
        except Exception as error:
            self._error = DecodeStartError(f"a bug in the decode probe: {type(error).__name__}: {error}")
