"""Steps at longer periods, predicted from a short one, against the same decode paced at the longer ones."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.measuring.serving.bursts import BurstSteps, observe, pooled
from pega_tune.autotune.measuring.serving.mixing import Mixture
from pega_tune.autotune.pacing import shortest_period_s
from pega_tune.autotune.serving import BASELINE
from pega_tune.errors import UsageError
from tests.helpers.serving import MadeUpDecode, constant

MEASURED = 150  # bursts at the short period
CHECKED = 1500  # bursts at each longer one: the truth, within what so many leave


def _uniform(low: float, high: float) -> Callable[[np.random.Generator], float]:
    return lambda rng: float(rng.uniform(low, high))


# Bursts shorter than a step, over several steps, and without a cost. Periods are no multiples of these steps.
DECODES = {
    "short": MadeUpDecode(3.93e-3, 0.005, constant(1.4e-3), _uniform(0.4e-3, 0.8e-3)),
    "long": MadeUpDecode(3.93e-3, 0.005, _uniform(6e-3, 8e-3), _uniform(0.1e-3, 0.9e-3)),
    "quiet": MadeUpDecode(3.93e-3, 0.01, constant(2e-3), constant(0.0)),
}


def _bursts(decode: MadeUpDecode, period_s: float, count: int) -> BurstSteps:
    """In short segments, each of which begins at another phase of a step, so that none is favoured."""
    return pooled(observe(decode.segment(0, period_s, 10, seed)) for seed in range(count // 10))


@pytest.mark.parametrize("name", DECODES)
def test_a_short_period_predicts_longer_ones(name: str) -> None:
    decode = DECODES[name]
    short_s = shortest_period_s(decode.step_s, max(decode.completion_s(np.random.default_rng(n)) for n in range(50)))
    baseline_s = decode.segment(BASELINE, short_s, 200, seed=1).steps_s
    mixture = Mixture.of(_bursts(decode, short_s, MEASURED), baseline_s)
    for period_s in (0.05, 0.1, 0.2):
        seen, predicted = _bursts(decode, period_s, CHECKED), mixture.at(period_s)
        truth_s = np.quantile(seen.steps_s, [0.5, 0.9, 0.99])
        # Bursts push steps to phases that depend on the period, and so overlap a little more or fewer of them.
        assert predicted.disturbed == pytest.approx(seen.disturbed.mean(), rel=0.15)
        assert predicted.mean_s == pytest.approx(seen.steps_s.mean(), rel=0.004)
        assert predicted.p50_s == pytest.approx(truth_s[0], rel=0.005)
        if abs(predicted.disturbed - 0.1) > 0.03:  # else p90 lies between the two kinds of steps, and is anywhere
            assert predicted.p90_s == pytest.approx(truth_s[1], rel=0.015)
        assert predicted.p99_s == pytest.approx(truth_s[2], abs=0.015 * decode.step_s)


def test_what_is_rare_enough_leaves_the_p99() -> None:
    mixture = Mixture(np.full(100, 6e-3), 100, np.full(50, 4e-3), 0.02)
    # A burst has one disturbed step: in 0.05 s it is one of 12, in 0.5 s one of 124.5, less than one in a hundred.
    assert mixture.at(0.05).p99_s == 6e-3
    assert mixture.at(0.5).p99_s == 4e-3
    assert mixture.at(0.05).disturbed == pytest.approx(1 / 12)
    assert mixture.at(0.05).mean_s == pytest.approx(0.05 / 12)


@given(
    st.lists(st.floats(1e-3, 1e-2), max_size=60),
    st.integers(1, 30),
    st.lists(st.floats(1e-3, 5e-3), min_size=1, max_size=60),
    st.floats(1.0, 100.0),
)
def test_a_period_is_filled_with_its_steps(
    disturbed: list[float], bursts: int, undisturbed: list[float], factor: float
) -> None:
    period_s = max(0.01, sum(disturbed) / bursts)
    mixed = Mixture(np.array(disturbed), bursts, np.array(undisturbed), period_s).at(period_s * factor)
    steps = len(disturbed) / bursts / mixed.disturbed if mixed.disturbed else period_s * factor / np.mean(undisturbed)
    assert mixed.mean_s * steps == pytest.approx(period_s * factor)
    assert mixed.p50_s <= mixed.p90_s <= mixed.p99_s
    assert {mixed.p50_s, mixed.p90_s, mixed.p99_s} <= {*disturbed, *undisturbed}


@pytest.mark.parametrize("period_s", [0.04, 0.0, -1.0, float("nan"), float("inf")])
def test_a_shorter_period_is_not_predicted(period_s: float) -> None:
    with pytest.raises(UsageError, match="tell nothing of a period"):
        Mixture(np.array([6e-3]), 1, np.array([4e-3]), 0.05).at(period_s)


def test_the_measured_period_itself_is() -> None:
    assert Mixture(np.array([6e-3]), 1, np.array([4e-3]), 0.05001).at(0.05).period_s == 0.05
