"""The numbers of a simulated device that matter only beside decode, and how they are read from its data file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pega_tune.profiles.policy.terms import Colocation


@dataclass(frozen=True, slots=True)
class ServingParameters:
    """Decode, and what it shares with transfers.

    Attributes:
        step_s: of a decode step of the preset `qwen3-4b` by itself, by colocation.
        step_sigma: standard deviation of the logarithm of a step's time.
        busy_step_ratio: time of a step's kernels while another process launches kernels now and then, beside that
            without.
        flops: operations per second of a prefill step.
        host_s: of a step: from the end of the one before to its first kernel.
        small_copy_s: of a step's token, to the host.
        slice_s: after which another process has its turn on the SMs.
        switch_s: how long nobody has them, when the turn changes.
        engine_switch_s: until a copy engine that is at work for another process takes a small copy.
        engine_command_s: of a copy engine for one command, beside its bytes.
        shared_engine: share of processes in which decode's small copies are tied to the engine of the saves.
        copy_ratio: time of DMA commands beside decode, relative to that without.
        free_bytes: that a copy kernel may have in flight before loads of decode queue up behind them.
        gather_step_speed: of decode while a kernel between staging buffer and ranges runs, relative to that without.
        launch_sigma: standard deviation of the logarithm of a kernel's time.
    """

    step_s: Mapping[Colocation, float]
    step_sigma: float
    busy_step_ratio: float
    flops: float
    host_s: float
    small_copy_s: float
    slice_s: float
    switch_s: float
    engine_switch_s: float
    engine_command_s: float
    shared_engine: float
    copy_ratio: float
    free_bytes: float
    gather_step_speed: float
    launch_sigma: float

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ServingParameters":
        """From a group of a data file in which every number has its source: `{"value": ..., "source": ...}`."""
        values = {name: entry["value"] for name, entry in data.items()}
        steps = {colocation: values.pop(f"{colocation.replace('-', '_')}_step_s") for colocation in _COLOCATIONS}
        return cls(step_s=steps, **values)


_COLOCATIONS = (Colocation.SAME_CONTEXT, Colocation.TIME_SLICED, Colocation.MPS)
