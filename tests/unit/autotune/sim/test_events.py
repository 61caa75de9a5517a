"""The event core: time, processes, and amounts that are worked off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.sim.events import Event, Fluid, Process, Simulation

delays = st.lists(st.floats(0, 1e3), min_size=1, max_size=20)
rates = st.lists(st.tuples(st.floats(1e-6, 10), st.floats(0, 1e6)), max_size=10)


@given(delays)
def test_time_never_goes_back_and_everything_due_is_done(delays_s: list[float]) -> None:
    simulation, seen = Simulation(), []
    last = Event(simulation)

    def process(delay_s: float) -> Process:
        yield delay_s
        seen.append(simulation.now_s)
        yield delay_s
        seen.append(simulation.now_s)
        if len(seen) == 2 * len(delays_s):
            last.fire()

    for delay_s in delays_s:
        simulation.start(process(delay_s))
    simulation.run(last)
    assert seen == sorted(seen)
    assert simulation.now_s == pytest.approx(2 * max(delays_s))


def test_what_is_due_at_once_is_done_in_order() -> None:
    simulation, seen = Simulation(), []
    for number in range(5):
        simulation.after(1.0, lambda number=number: seen.append(number))
    end = Event(simulation)
    simulation.after(1.0, end.fire)
    simulation.run(end)
    assert seen == [0, 1, 2, 3, 4]


def test_nothing_is_done_before_now() -> None:
    for delay_s in (-1e-9, float("nan")):
        with pytest.raises(ValueError, match="from now"):
            Simulation().after(delay_s, lambda: None)


def test_a_cancelled_timer_does_nothing() -> None:
    simulation, seen = Simulation(), []
    simulation.after(1.0, lambda: seen.append("cancelled")).cancel()
    end = Event(simulation)
    simulation.after(2.0, end.fire)
    simulation.run(end)
    assert seen == []


def test_an_event_happens_once_and_is_seen_by_those_who_come_late() -> None:
    simulation, seen = Simulation(), []
    event, end = Event(simulation), Event(simulation)
    event.then(lambda: seen.append("early"))
    event.fire()
    event.fire()
    event.then(lambda: seen.append("late"))
    simulation.after(1.0, end.fire)
    simulation.run(end)
    assert seen == ["early", "late"]


def test_the_first_of_an_event_and_a_while() -> None:
    for event_s, expected_s in ((1.0, 1.0), (3.0, 2.0)):
        simulation = Simulation()
        event = Event(simulation)
        simulation.after(event_s, event.fire)
        simulation.run(simulation.first(event, 2.0))
        assert simulation.now_s == expected_s


def test_a_process_that_waits_for_ever_is_found_out() -> None:
    simulation = Simulation()
    with pytest.raises(RuntimeError, match="nothing is due"):
        simulation.run(Event(simulation))


def _end_s(amount: float, changes: list[tuple[float, float]], last_rate: float) -> float:
    """When an amount is worked off, added up."""
    now_s = 0.0
    for after_s, rate in changes:
        if rate * after_s >= amount:
            return now_s + amount / rate
        now_s, amount = now_s + after_s, amount - rate * after_s
    return now_s + amount / last_rate


@given(st.floats(1e-3, 1e9), rates, st.floats(1, 1e9))
def test_an_amount_is_worked_off_exactly_once(
    amount: float, changes: list[tuple[float, float]], last_rate: float
) -> None:
    simulation = Simulation()
    work = Fluid(simulation, amount)

    def process() -> Process:
        for after_s, rate in changes:
            before = work.left
            work.set_rate(rate)
            yield after_s
            assert work.left == pytest.approx(max(0.0, before - rate * after_s), rel=1e-6, abs=1e-6 * amount)
        work.set_rate(last_rate)

    simulation.start(process())
    simulation.run(work.done)
    assert work.left == 0
    assert simulation.now_s == pytest.approx(_end_s(amount, changes, last_rate), rel=1e-6)


def test_what_is_held_stays() -> None:
    simulation = Simulation()
    work, end = Fluid(simulation, 10.0), Event(simulation)
    work.set_rate(1.0)
    simulation.after(4.0, lambda: work.set_rate(0.0))
    simulation.after(100.0, end.fire)
    simulation.run(end)
    assert work.left == pytest.approx(6.0)
    assert not work.done.happened
