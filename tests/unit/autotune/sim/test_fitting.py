"""The fitted numbers of the data files are what their rows give, each with the others as they are."""

from dataclasses import fields, replace

import pytest
from scipy.optimize import minimize_scalar

from pega_tune.autotune.sim.model import TransferModel
from pega_tune.autotune.sim.parameters import load_parameters
from pega_tune.kernels.plan import direct
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.sim_fitting import H200, RTX5090, Fit, slice_s
from tests.helpers.sim_rows import GIB, MIB, device, twice

CASES = [
    pytest.param(name, fit, id=f"{name} {fit.name}")
    for name, fits in (("rtx5090", RTX5090), ("h200", H200))
    for fit in fits
]


@pytest.mark.parametrize(("name", "fit"), CASES)
def test_a_fitted_number(name: str, fit: Fit) -> None:
    parameters = device(name)
    value = getattr(parameters.serving, fit.name)
    assert fit.excess(parameters, 0.97 * value) < 0 < fit.excess(parameters, 1.03 * value)  # it is fitted in between
    assert fit.seen(parameters) == pytest.approx(fit.target, rel=0.005)


def test_the_slice() -> None:
    parameters = device("rtx5090")
    assert slice_s(parameters) == pytest.approx(parameters.serving.slice_s)
    assert load_parameters("h200").serving.slice_s == parameters.serving.slice_s


def test_names_are_of_numbers() -> None:
    names = {field.name for field in fields(load_parameters("h200").serving)}
    assert {fit.name for fit in (*RTX5090, *H200)} <= names


DIRECT_BOTH_WAYS = (  # bytes of a range, GiB/s of the H200 without decode
    (4096, 1.53),
    (1024, 0.4),
    (4096, 1.5),
    (16_384, 6.1),
    (32_768, 12.1),
    (65_536, 21.8),
    (262_144, 47.7),
    (1_048_576, 75.7),
    (4_194_304, 87.7),
)


def test_the_cost_of_a_pair_of_commands_is_of_transfer_only_rows() -> None:
    parameters = device("h200")

    def error(ratio: float) -> float:
        model = TransferModel(replace(parameters, dma=replace(parameters.dma, pair_command_ratio=ratio)))
        shapes = [(TransferShape(64 * MIB // size, 64 * MIB, Direction.BOTH), rate) for size, rate in DIRECT_BOTH_WAYS]
        rates = [(128 * MIB / model.times(twice(direct()), shape).transfer_s / GIB, rate) for shape, rate in shapes]
        return sum((modelled / measured - 1) ** 2 for modelled, measured in rates)

    best = minimize_scalar(error, bounds=(0.8, 1.2), method="bounded").x
    assert parameters.dma.pair_command_ratio == pytest.approx(best, abs=0.002)
