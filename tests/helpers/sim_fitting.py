"""What of a simulated device is fitted on measured rows beside decode, and how."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import log

from scipy.optimize import brentq

from pega_tune.autotune.sim.parameters import SimParameters
from pega_tune.autotune.sim.scene import Scene
from pega_tune.kernels.plan import PlanPair, direct
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.sim_rows import PERIOD_S, Predicted, block, device, predict, program, shuffled, twice

SLICED = Colocation.TIME_SLICED
NORMAL_P99 = 2.3263
SLICE_STEP_S = 5e-5
SLICE_TOLERANCE = 0.005


@dataclass(frozen=True, slots=True)
class Fit:
    """One number of the group `serving`, and what it is fitted on.

    Attributes:
        name: of the number.
        row: which measured row.
        target: what was measured.
        least: lower end of where to look.
        most: upper end.
        seen: the same of a simulation; it grows with the number.
    """

    name: str
    row: str
    target: float
    least: float
    most: float
    seen: Callable[[SimParameters], float]

    def value(self, parameters: SimParameters) -> float:
        """What the number should be, given the others."""

        def excess(value: float) -> float:
            return self.excess(parameters, value)

        return float(brentq(excess, self.least, self.most, xtol=1e-4 * self.most))

    def excess(self, parameters: SimParameters, value: float) -> float:
        """How much more than was measured is seen with another value of the number."""
        return self.seen(with_value(parameters, self.name, value)) - self.target


def with_value(parameters: SimParameters, name: str, value: float) -> SimParameters:
    """The device with another value of one number of the group `serving`."""
    return replace(parameters, serving=replace(parameters.serving, **{name: value}))


def _beside(plan: PlanPair, parameters: SimParameters) -> Predicted:
    """A plan in a process of its own, on a device whose small copies are as in the measured process."""
    serving = parameters.serving
    bursts = program(parameters, plan, shuffled())
    scene = Scene(SLICED, serving.step_s[SLICED], bursts, PERIOD_S, 1, shared_engine=serving.shared_engine > 0.5)
    return predict(parameters, scene, fresh_phases=plan != twice(direct()))


def _none(parameters: SimParameters) -> Predicted:
    return predict(parameters, Scene(SLICED, parameters.serving.step_s[SLICED], None, PERIOD_S, 1))


def _full(parameters: SimParameters) -> Predicted:
    return _beside(twice(block()), parameters)


def _direct(parameters: SimParameters) -> Predicted:
    return _beside(twice(direct()), parameters)


def _added(plan: PlanPair, parameters: SimParameters) -> float:
    return 100 * (_beside(plan, parameters).p99_s / _none(parameters).p99_s - 1)


# The table of the report; its follow-up has the same three rows again, which are predicted.
RTX5090 = (
    Fit("step_sigma", "no transfer, p99 in s", 6.255e-3, 1e-4, 1e-2, lambda p: _none(p).p99_s),
    Fit("busy_step_ratio", "kernel, p50 in s", 6.034e-3, 0.9, 1.0, lambda p: _full(p).p50_s),
    Fit("switch_s", "kernel, mean in s", 6.414e-3, 1e-5, 5e-4, lambda p: _full(p).mean_s),
    Fit("launch_sigma", "kernel, p99 in s", 9.172e-3, 0.01, 0.3, lambda p: _full(p).p99_s),
    Fit("engine_switch_s", "direct, p99 in s", 6.542e-3, 1e-5, 2e-3, lambda p: _direct(p).p99_s),
    Fit("copy_ratio", "direct, minus GiB/s", -2.436, 0.9, 1.5, lambda p: -_direct(p).gib_per_s),
)
H200 = (
    Fit("switch_s", "block full, added p99 in %", 87.0, 1e-5, 5e-4, partial(_added, twice(block()))),
    Fit("engine_switch_s", "direct, added p99 in %", 10.0, 1e-5, 2e-3, partial(_added, twice(direct()))),
    Fit("copy_ratio", "direct, minus GiB/s", -1.52, 0.9, 1.5, lambda p: -_direct(p).gib_per_s),
)


def slice_s(parameters: SimParameters, completion_s: float = 5.9e-3) -> float:
    """The shortest slice, in steps of 50 us, that lets the full grid complete when it did on the RTX 5090.

    A step in three slices or less is cut in the same places by any of a range of slices, so that no more can be told.
    """
    for number in range(20, 61):
        tried = number * SLICE_STEP_S
        seen_s = _full(with_value(parameters, "slice_s", tried)).completion_s
        if abs(log(seen_s / completion_s)) < SLICE_TOLERANCE:
            return tried
    raise ValueError("no slice of 1 to 3 ms explains the completion")


def fitted(name: str, fits: tuple[Fit, ...], passes: int = 2) -> SimParameters:
    """The device of a data file, its fitted numbers found anew, one after another."""
    parameters = device(name)
    for _ in range(passes):
        for fit in fits:
            parameters = with_value(parameters, fit.name, fit.value(parameters))
    return parameters
