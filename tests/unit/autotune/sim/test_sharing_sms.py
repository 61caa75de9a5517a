"""Who has the SMs, and how fast: time slices, residency, and decode beside copy kernels."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.sim.events import Process, Simulation
from pega_tune.autotune.sim.link import Link, Load
from pega_tune.autotune.sim.multiprocessors import Multiprocessors
from pega_tune.autotune.sim.parameters import load_parameters
from pega_tune.autotune.sim.stages import Gather, Launch
from pega_tune.autotune.sim.time_slices import Side, TimeSlices
from pega_tune.kernels.shape import Direction

SERVING = load_parameters("h200").serving
SLICE_S, SWITCH_S = 2e-3, 1e-4
ROOM = 1000


def _launch(
    duration_s: float, direction: Direction = Direction.H2D, threads: int = 100, in_flight_bytes: float = 1e6
) -> Launch:
    return Launch(Load(direction, 1e6, duration_s, duration_s), threads, ROOM, None, in_flight_bytes)


class Bench:
    """Runs processes on SMs, and notes when each ends."""

    def __init__(self, *, sliced: bool = False) -> None:
        self.simulation = Simulation()
        self.sms = Multiprocessors(self.simulation, Link(self.simulation), SERVING)
        self.ends_s: dict[str, float] = {}
        if sliced:
            self.sms.slice(SLICE_S, SWITCH_S)

    def run(self, **processes: Process) -> dict[str, float]:
        def noted(name: str, process: Process) -> Process:
            yield from process
            self.ends_s[name] = self.simulation.now_s

        ends = [self.simulation.start(noted(name, process)) for name, process in processes.items()]

        def together() -> Process:
            yield from ends

        self.simulation.run(self.simulation.start(together()))
        return self.ends_s


def test_alone_both_sides_take_their_time() -> None:
    for sliced in (False, True):
        bench = Bench(sliced=sliced)
        assert bench.run(step=bench.sms.decode(5e-3))["step"] == pytest.approx(5e-3)
        bench = Bench(sliced=sliced)
        assert bench.run(copy=bench.sms.launch(_launch(5e-3), 1.0))["copy"] == pytest.approx(5e-3)


def test_processes_take_turns_slice_by_slice() -> None:
    bench = Bench(sliced=True)
    ends_s = bench.run(step=bench.sms.decode(5e-3), copy=bench.sms.launch(_launch(3e-3), 1.0))
    # decode 2, copy 2, decode 2, copy 1, decode 1, and a switch between each
    assert ends_s["copy"] == pytest.approx(7e-3 + 3 * SWITCH_S)
    assert ends_s["step"] == pytest.approx(8e-3 + 4 * SWITCH_S, abs=2e-6)


@given(st.floats(1e-4, 2e-2), st.floats(1e-4, 2e-2), st.floats(0, 1e-2))
def test_turns_lose_nothing_but_switches(step_s: float, copy_s: float, after_s: float) -> None:
    bench = Bench(sliced=True)

    def later() -> Process:
        yield after_s
        yield from bench.sms.launch(_launch(copy_s), 1.0)

    ends_s = bench.run(step=bench.sms.decode(step_s), copy=later())
    beside = after_s < step_s
    switches = 2 * (1 + min(step_s, copy_s) / SLICE_S) if beside else 1
    least_s = max(step_s, after_s) if not beside else step_s
    assert least_s + copy_s * beside <= max(ends_s.values()) * (1 + 1e-9)
    assert max(ends_s.values()) <= max(step_s, after_s) + copy_s + switches * SWITCH_S + 1e-5


def test_an_idle_side_gives_its_turn_away_at_once() -> None:
    bench = Bench(sliced=True)

    def later() -> Process:
        yield 1.5e-3
        yield from bench.sms.launch(_launch(1e-3), 1.0)

    ends_s = bench.run(step=bench.sms.decode(1e-3), copy=later())
    assert ends_s["copy"] == pytest.approx(2.5e-3 + SWITCH_S)


def test_a_slice_begins_with_the_step_and_not_with_the_turn() -> None:
    bench = Bench(sliced=True)

    def steps() -> Process:
        yield from bench.sms.decode(1.5e-3)
        yield 1e-5
        yield from bench.sms.decode(3e-3)

    def later() -> Process:
        yield 1.6e-3
        yield from bench.sms.launch(_launch(1e-3), 1.0)

    begun_s = 1.5e-3 + 1e-5
    assert bench.run(steps=steps(), copy=later())["copy"] == pytest.approx(begun_s + SLICE_S + SWITCH_S + 1e-3)


def test_never_do_both_sides_have_the_device() -> None:
    simulation = Simulation()
    owners: list[tuple[bool, bool]] = []

    def note() -> None:
        owners.append((turns.has(Side.DECODE), turns.has(Side.TRANSFER)))

    turns = TimeSlices(simulation, SLICE_S, SWITCH_S, note)
    turns.want(Side.DECODE)
    turns.want(Side.TRANSFER)

    def wait() -> Process:
        yield 0.02

    simulation.run(simulation.start(wait()))
    assert len(owners) > 10
    assert (True, True) not in owners
    assert {(True, False), (False, True), (False, False)} == set(owners)


@given(st.integers(1, 3 * ROOM), st.integers(1, 3 * ROOM))
def test_kernels_that_do_not_fit_together_run_one_after_another(first: int, second: int) -> None:
    bench = Bench()
    load, save = _launch(1e-3, threads=first), _launch(1e-3, Direction.D2H, threads=second)
    ends_s = bench.run(load=bench.sms.launch(load, 1.0), save=bench.sms.launch(save, 1.0))
    share = max(0.0, min(1.0, (ROOM - first) / second))
    assert ends_s["load"] == pytest.approx(1e-3)
    expected_s = 1e-3 if share == 1 else 1e-3 + (1 - share) * 1e-3
    assert ends_s["save"] == pytest.approx(expected_s)


def test_partitions_do_not_share_their_room() -> None:
    bench = Bench()
    load = _launch(1e-3, threads=ROOM)
    save = replace(_launch(1e-3, Direction.D2H, threads=ROOM), partition=8)
    ends_s = bench.run(load=bench.sms.launch(load, 1.0), save=bench.sms.launch(save, 1.0))
    assert ends_s["save"] == pytest.approx(1e-3)


@given(st.floats(1, 100))
def test_decode_waits_behind_what_is_in_flight(times_too_much: float) -> None:
    bench = Bench()
    copy = _launch(1e-3, in_flight_bytes=times_too_much * SERVING.free_bytes)
    ends_s = bench.run(step=bench.sms.decode(5e-3), copy=bench.sms.launch(copy, 1.0))
    assert ends_s["copy"] == pytest.approx(1e-3)
    assert ends_s["step"] == pytest.approx(5e-3 + 1e-3 * (1 - 1 / times_too_much))


def test_a_gather_takes_device_memory_from_decode() -> None:
    bench = Bench()
    ends_s = bench.run(step=bench.sms.decode(1e-3), gather=bench.sms.gather(Gather(1e-4)))
    assert ends_s["gather"] == pytest.approx(1e-4)
    assert ends_s["step"] == pytest.approx(1e-3 + 1e-4 * (1 - SERVING.gather_step_speed))
