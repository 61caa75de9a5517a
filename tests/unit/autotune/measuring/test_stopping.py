"""The stopping rule, fed with numbers."""

import pytest

from pega_tune.autotune.engine import SamplingLimits
from pega_tune.autotune.measuring.stopping import StoppingRule, Verdict

RULE = StoppingRule(SamplingLimits(budget_s=10.0, min_rounds=7, max_rounds=20, drop_after=2, drop_ratio=2.0))


def _around(centre: float, spread: float = 0.001, count: int = 9) -> list[float]:
    return [centre * (1 + spread * (n - count // 2)) for n in range(count)]


def test_nothing_ends_before_the_least_rounds() -> None:
    assert RULE.verdict(6, 1e9, [_around(1.0), _around(2.0)]) is Verdict.GO_ON


def test_a_narrow_and_separated_winner_ends_the_block() -> None:
    assert RULE.verdict(9, 0.0, [_around(1.0), _around(1.5), _around(3.0, spread=0.1)]) is Verdict.SEPARATED


def test_a_single_narrow_contender_has_won() -> None:
    assert RULE.verdict(9, 0.0, [_around(1.0)]) is Verdict.SEPARATED


def test_narrow_intervals_that_touch_are_equivalent() -> None:
    assert RULE.verdict(9, 0.0, [_around(1.0), _around(1.001), _around(2.0)]) is Verdict.EQUIVALENT


def test_a_wide_rival_that_touches_the_winner_leaves_it_open() -> None:
    assert RULE.verdict(9, 0.0, [_around(1.0), _around(1.1, spread=0.05)]) is Verdict.GO_ON


def test_a_wide_winner_leaves_it_open() -> None:
    assert RULE.verdict(9, 0.0, [_around(1.0, spread=0.02), _around(9.0)]) is Verdict.GO_ON


def test_too_few_samples_of_one_leave_it_open() -> None:
    assert RULE.verdict(9, 0.0, [_around(1.0), [2.0] * 5]) is Verdict.GO_ON


def test_the_budget_ends_an_open_block() -> None:
    unclear = [_around(1.0, spread=0.1), _around(1.0, spread=0.1)]
    assert RULE.verdict(7, 9.99, unclear) is Verdict.GO_ON
    assert RULE.verdict(7, 10.0, unclear) is Verdict.OUT_OF_TIME


def test_the_last_round_ends_an_open_block() -> None:
    assert RULE.verdict(20, 0.0, [_around(1.0, spread=0.1)]) is Verdict.OUT_OF_ROUNDS


def test_a_decision_in_the_last_round_counts() -> None:
    assert RULE.verdict(20, 99.0, [_around(1.0)]) is Verdict.SEPARATED


def test_without_contenders_only_time_and_rounds_end_it() -> None:
    assert RULE.verdict(9, 0.0, []) is Verdict.GO_ON
    assert RULE.verdict(9, 10.0, []) is Verdict.OUT_OF_TIME


@pytest.mark.parametrize(
    ("rounds", "samples", "contenders", "hopeless"),
    [
        (2, [2.1, 9.0], [[1.0, 1.0]], True),
        (2, [2.0, 9.0], [[1.0, 1.0]], False),
        (2, [9.0, 0.5], [[1.0, 1.0]], False),
        (1, [2.1], [[1.0]], False),
        (2, [2.1, 2.1], [], False),
        (2, [], [[1.0, 1.0]], False),
        (2, [2.1, 2.1], [[1.0, 9.0, 1.0], [1.2, 1.2, 1.2]], True),
    ],
)
def test_hopeless_is_a_fastest_sample_past_the_best_median(
    rounds: int, samples: list[float], contenders: list[list[float]], hopeless: bool
) -> None:
    assert RULE.hopeless(rounds, samples, contenders) is hopeless
