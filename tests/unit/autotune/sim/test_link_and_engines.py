"""The link and the copy engines: bytes are conserved, rates are kept, and no two commands overlap on an engine."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.sim.copy_engine import CopyEngine, Occupied
from pega_tune.autotune.sim.events import Event, Process, Simulation
from pega_tune.autotune.sim.link import Link, Load
from pega_tune.autotune.sim.stages import Copy
from pega_tune.kernels.shape import Direction

H2D, D2H = Direction.H2D, Direction.D2H
ALONE, PAIRED = 50e9, 45e9  # bytes per second

sizes = st.floats(1e3, 1e9)
begins = st.floats(0, 0.05)
transfers = st.lists(st.tuples(st.sampled_from((H2D, D2H)), begins, sizes), min_size=1, max_size=8)


def _load(direction: Direction, nbytes: float) -> Load:
    return Load(direction, nbytes, nbytes / ALONE, nbytes / PAIRED)


def _copy(direction: Direction, nbytes: float) -> Copy:
    return Copy(_load(direction, nbytes), commands=1, busy=1.0)


def _all(simulation: Simulation, processes: list[Process]) -> None:
    ends = [simulation.start(process) for process in processes]

    def together() -> Process:
        yield from ends

    simulation.run(simulation.start(together()))


@given(transfers)
def test_bytes_are_conserved_and_no_direction_is_faster_than_alone(
    flows: list[tuple[Direction, float, float]],
) -> None:
    simulation = Simulation()
    link, ends = Link(simulation), []

    def process(direction: Direction, begin_s: float, nbytes: float) -> Process:
        yield begin_s
        flow = link.begin(_load(direction, nbytes))
        yield flow.done
        assert flow.left == 0
        ends.append((direction, simulation.now_s))

    _all(simulation, [process(*flow) for flow in flows])
    assert len(ends) == len(flows)
    for direction in (H2D, D2H):
        mine = [(begin_s, nbytes) for way, begin_s, nbytes in flows if way is direction]
        if mine:
            end_s = max(end_s for way, end_s in ends if way is direction)
            moved = sum(nbytes for _, nbytes in mine)
            assert moved <= (end_s - min(begin_s for begin_s, _ in mine)) * ALONE * (1 + 1e-6)
            assert end_s <= max(begin_s for begin_s, _ in mine) + moved / PAIRED * (1 + 1e-6)


def test_both_directions_have_less_than_either_alone() -> None:
    simulation = Simulation()
    link = Link(simulation)
    flows = [link.begin(_load(direction, 9e6)) for direction in (H2D, D2H)]
    simulation.run(flows[0].done)
    assert simulation.now_s == pytest.approx(9e6 / PAIRED)


def test_a_trickle_leaves_the_other_direction_its_rate() -> None:
    simulation = Simulation()
    link = Link(simulation)
    link.begin(Load(D2H, 1e6, 1.0, 1.0, fill=0.0))
    simulation.run(link.begin(_load(H2D, 5e6)).done)
    assert simulation.now_s == pytest.approx(5e6 / ALONE)


def test_a_held_flow_leaves_the_link_to_the_other_one() -> None:
    simulation = Simulation()
    link = Link(simulation)
    held, free = (link.begin(_load(direction, 5e6)) for direction in (H2D, D2H))
    link.hold(held, True)
    simulation.run(free.done)
    assert simulation.now_s == pytest.approx(5e6 / ALONE)
    assert held.left == 5e6


smalls = st.lists(st.tuples(begins, st.floats(1e-6, 1e-3)), max_size=5)


@given(st.lists(st.tuples(begins, sizes), min_size=1, max_size=6), smalls)
def test_commands_do_not_overlap_and_take_as_long_as_their_bytes(
    copies: list[tuple[float, float]], interruptions: list[tuple[float, float]]
) -> None:
    simulation = Simulation()
    engine, order = CopyEngine(simulation, Link(simulation)), []

    def submit(number: int, begin_s: float, nbytes: float) -> Process:
        yield begin_s
        yield engine.submit(_copy(H2D, nbytes))
        order.append((begin_s, number))

    def interrupt() -> Process:
        for after_s, duration_s in interruptions:
            yield after_s
            yield from engine.interrupt(duration_s)

    _all(simulation, [*(submit(i, *copy) for i, copy in enumerate(copies)), interrupt()])
    assert order == sorted(order)
    assert all(one.end_s <= next_one.begin_s for one, next_one in pairwise(engine.log))
    worked_s = sum(end_s - begin_s for begin_s, end_s in engine.log)
    expected_s = sum(nbytes for _, nbytes in copies) / ALONE + sum(duration_s for _, duration_s in interruptions)
    assert worked_s == pytest.approx(expected_s, rel=1e-6)
    assert engine.work is None


def test_a_command_goes_on_after_an_interruption() -> None:
    simulation = Simulation()
    engine = CopyEngine(simulation, Link(simulation))
    ended = engine.submit(_copy(D2H, 5e6))
    simulation.after(4e-5, lambda: simulation.start(engine.interrupt(1e-5)))
    simulation.run(ended)
    assert simulation.now_s == pytest.approx(1e-4 + 1e-5)
    assert engine.log == [
        Occupied(0.0, pytest.approx(4e-5)),
        Occupied(pytest.approx(4e-5), pytest.approx(5e-5)),
        Occupied(pytest.approx(5e-5), pytest.approx(1.1e-4)),
    ]


def test_an_engine_is_idle_only_when_its_queue_is_empty() -> None:
    simulation = Simulation()
    engine = CopyEngine(simulation, Link(simulation))
    for _ in range(3):
        engine.submit(_copy(H2D, 5e6))
    assert engine.work
    idle, end = engine.work.idle, Event(simulation)
    simulation.after(1.0, end.fire)
    simulation.run(idle)
    assert simulation.now_s == pytest.approx(3 * 5e6 / ALONE)
    simulation.run(end)
    assert engine.work is None
