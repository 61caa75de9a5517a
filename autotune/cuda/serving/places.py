"""Where decode runs: in the engine's context, in a process beside it, or in a client of MPS beside another one."""

from typing import ClassVar, Final

from cuda.bindings import driver

from pega_tune.autotune.cuda.compile_cache import user_compile_cache
from pega_tune.autotune.cuda.serving.decode import Probe, RunningDecode, Workload
from pega_tune.autotune.cuda.serving.decode_process import ProcessDecode
from pega_tune.autotune.cuda.serving.mps import MpsControl, running_daemon
from pega_tune.autotune.cuda.serving.mps_clients import client_environment
from pega_tune.autotune.cuda.serving.same_context import SameContextDecode
from pega_tune.autotune.serving import DecodeSpec, MpsShare
from pega_tune.errors import DeviceError
from pega_tune.kernels.context import call
from pega_tune.kernels.decode.probe import make_probe
from pega_tune.kernels.driver import DriverCallError
from pega_tune.profiles.policy.settings import (
    MPS_PRIORITY_VARIABLE,
    MPS_THREADS_VARIABLE,
    environment_record,
    mps_pipe_directory,
)
from pega_tune.profiles.policy.terms import Colocation

_MPS_ENABLED: Final = "CU_DEVICE_ATTRIBUTE_MPS_ENABLED"

# What the transfer side is granted is not what decode is.
_WITHOUT_SHARE: Final = {MPS_THREADS_VARIABLE: None, MPS_PRIORITY_VARIABLE: None}


class ColocationError(DeviceError):
    """This process is not where a colocation wants it: under MPS, or not under it."""

    code: ClassVar[str] = "colocation"


def probe_of(spec: DecodeSpec, ordinal: int) -> Probe:
    """The probe of a workload, as a `ProbeMaker`."""
    return make_probe(spec.source, spec.model, spec.stream_priority, ordinal, user_compile_cache())


def start_decode(workload: Workload, colocation: Colocation) -> RunningDecode:
    """Decode in its place, past its first steps.

    Raises:
        PegaTuneError: it does not start.
    """
    if colocation is Colocation.SAME_CONTEXT:
        return SameContextDecode(workload, probe_of)
    return ProcessDecode(workload, probe_of, _WITHOUT_SHARE if colocation is Colocation.MPS else None)


def is_mps_client(ordinal: int) -> bool:
    """Whether contexts of this process on the device of an ordinal are shared through MPS."""
    attribute = getattr(driver.CUdevice_attribute, _MPS_ENABLED, None)
    try:
        if attribute is not None:
            return bool(call("cuDeviceGetAttribute", attribute, call("cuDeviceGet", ordinal)))
    except DriverCallError:  # an older driver does not know the question
        pass
    return running_daemon() is not None


def require_place(colocation: Colocation, share: MpsShare, under_mps: bool) -> None:
    """Refuses to measure something else than what is asked for.

    Args:
        colocation: where decode is to run.
        share: what MPS is to grant us.
        under_mps: whether this process is a client of MPS.

    Raises:
        ColocationError: this process is under MPS and should not be, or is not and should be, or has another share.
    """
    wanted = colocation is Colocation.MPS
    if under_mps and not wanted:
        raise ColocationError(
            f"this process is a client of MPS, where nothing is {colocation}",
            "unset CUDA_MPS_PIPE_DIRECTORY, or stop the MPS daemon",
        )
    if wanted and not under_mps:
        raise ColocationError("this process is no client of MPS", "start it in the environment of a running MPS daemon")
    if wanted:
        _require_share(share)


def mps_servers() -> tuple[int, ...]:
    """Process ids of the servers of the daemon that this process is a client of."""
    return MpsControl(mps_pipe_directory()).server_pids()


def _require_share(share: MpsShare) -> None:
    found = dict(environment_record().variables)
    for name, value in client_environment(mps_pipe_directory(), share):
        if name in _WITHOUT_SHARE and (found[name] or None) != value:
            raise ColocationError(f"{name} is {found[name] or 'not set'} in this process, not {value or 'unset'}")
