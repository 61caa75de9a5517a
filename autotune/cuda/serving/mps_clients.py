"""What makes an engine process a client of MPS, or keeps it from becoming one."""

from pathlib import Path
from typing import Final

from pega_tune.autotune.cuda.serving.mps import MpsControl, MpsDaemon, MpsError, running_daemon
from pega_tune.autotune.isolation.environment import Environment
from pega_tune.autotune.serving import MpsShare
from pega_tune.kernels.closing import Closing
from pega_tune.profiles.policy.settings import MPS_PIPE_VARIABLE, MPS_PRIORITY_VARIABLE, MPS_THREADS_VARIABLE
from pega_tune.profiles.policy.terms import Colocation

_NOWHERE: Final = Path("/nonexistent")
"""A program that finds no daemon where it looks runs as it would without MPS (manual page of the control program)."""


class MpsClients(Closing):
    """Says which environment an engine process needs, as `EnvironmentOf`, and keeps the daemon while it is open."""

    def __init__(self, may_start: bool = False) -> None:
        """Looks for a daemon.

        Args:
            may_start: whether one of our own is started when it is needed and none runs. It is stopped as soon as it is
                needed no more.
        """
        self._may_start = may_start
        self._found = running_daemon()
        self._own: MpsDaemon | None = None

    def __call__(self, colocation: Colocation, share: MpsShare) -> Environment:
        """The environment for a colocation.

        Raises:
            MpsError: there is no daemon, and none may or can be started.
        """
        if colocation is not Colocation.MPS:
            self.close()  # its server would hold a context beside what is measured without it
            # Whoever CUDA is initialised in becomes a client of a daemon that it finds, wanted or not.
            return ((MPS_PIPE_VARIABLE, str(_NOWHERE)),) if self._found else ()
        return client_environment(self._control().pipe_directory, share)

    def close(self) -> None:
        """Stops the daemon if it is ours; its clients must have ended."""
        if self._own is not None:
            self._own.close()
            self._own = None

    def _control(self) -> MpsControl:
        if self._found is not None:
            return self._found
        if self._own is None:
            if not self._may_start:
                raise MpsError(
                    "no MPS daemon is running", "start one, or allow to start one for as long as is measured"
                )
            self._own = MpsDaemon.start()
        return self._own.control


def client_environment(pipe_directory: Path, share: MpsShare) -> Environment:
    """The environment of a client with a share."""
    return (
        (MPS_PIPE_VARIABLE, str(pipe_directory)),
        (MPS_THREADS_VARIABLE, _text(share.active_thread_percentage)),
        (MPS_PRIORITY_VARIABLE, _text(share.client_priority)),
    )


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
