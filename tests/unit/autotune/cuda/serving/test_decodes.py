"""Which decode runs beside a block: started late, kept, replaced, tested once."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from pega_tune.autotune.cuda.serving.decode import DecodeLostError, Workload
from pega_tune.autotune.cuda.serving.decodes import Decodes, Starting, quiet_steps
from pega_tune.autotune.cuda.serving.overlap import SERIALISED, UNTESTED, Copies
from pega_tune.autotune.engine import MemoryLimitError
from pega_tune.autotune.serving import DecodeSpec
from pega_tune.errors import DeviceError
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.serving_world import World, WorldlyCopy, WorldlyDecode

STEP_S = 0.004
SMALL, LARGE = DecodeSpec(model="small"), DecodeSpec(model="qwen3-4b")
SLICED, SAME = Colocation.TIME_SLICED, Colocation.SAME_CONTEXT


@dataclass
class Fixture:
    """Starts worldly decode, and remembers what was asked for."""

    world: World = field(default_factory=World)
    started: list[WorldlyDecode] = field(default_factory=list)
    asked: list[tuple[Workload, Colocation]] = field(default_factory=list)
    adopted: list[tuple[tuple[int, ...], frozenset[int]]] = field(default_factory=list)
    alternates: bool = False
    memory: bool = True

    def decodes(self) -> Decodes:
        return Decodes(3, Starting(self._start, self._copies, self, self.world.host))

    def present(self) -> frozenset[int]:
        return frozenset({1, 2})

    def adopt(self, pids: tuple[int, ...], before: frozenset[int]) -> None:
        self.adopted.append((pids, before))

    def _start(self, workload: Workload, colocation: Colocation) -> WorldlyDecode:
        assert all(decode.closed for decode in self.started)  # never two at once
        self.asked.append((workload, colocation))
        pid = None if colocation is SAME else 50
        self.started.append(WorldlyDecode(self.world, STEP_S, pid))
        return self.started[-1]

    def _copies(self) -> Copies:
        if not self.memory:
            raise MemoryLimitError("too little")
        chunked = WorldlyCopy(self.world, 0.0004, alternates=self.alternates)
        return Copies(chunked, (WorldlyCopy(self.world, 0.0004),))


def test_decode_is_kept_while_the_same_is_asked_for() -> None:
    fixture = Fixture()
    decodes = fixture.decodes()
    assert fixture.started == []
    first = decodes.beside(SMALL, SLICED)
    assert decodes.beside(DecodeSpec(model="small"), SLICED) is first
    assert fixture.asked == [(Workload(SMALL, 3), SLICED)]
    assert first.step_s == pytest.approx(STEP_S)
    assert first.flags == ()


def test_another_workload_or_place_replaces_it() -> None:
    fixture = Fixture()
    decodes = fixture.decodes()
    for spec, colocation in ((SMALL, SLICED), (LARGE, SLICED), (LARGE, SAME), (SMALL, SLICED)):
        decodes.beside(spec, colocation)
    assert [(w.spec, c) for w, c in fixture.asked] == [(SMALL, SLICED), (LARGE, SLICED), (LARGE, SAME), (SMALL, SLICED)]
    assert [decode.closed for decode in fixture.started] == [True, True, True, False]


def test_closing_ends_it_and_it_can_be_asked_for_again() -> None:
    fixture = Fixture()
    decodes = fixture.decodes()
    decodes.beside(SMALL, SLICED)
    decodes.close()
    decodes.close()
    assert fixture.started[0].closed
    decodes.beside(SMALL, SLICED)
    assert len(fixture.started) == 2


def test_a_process_of_its_own_is_no_neighbour() -> None:
    fixture = Fixture()
    decodes = fixture.decodes()
    decodes.beside(SMALL, SLICED)
    decodes.beside(SMALL, SAME)
    assert fixture.adopted == [((50,), frozenset({1, 2}))]


def test_an_environment_that_serialises_is_flagged() -> None:
    assert Fixture(alternates=True).decodes().beside(SMALL, SAME).flags == (SERIALISED,)


def test_without_memory_for_the_test_that_is_said() -> None:
    assert Fixture(memory=False).decodes().beside(SMALL, SAME).flags == (UNTESTED,)


def test_decode_that_was_lost_since_is_an_error_and_started_anew_only_by_another_engine() -> None:
    fixture = Fixture()
    decodes = fixture.decodes()
    decodes.beside(SMALL, SLICED)
    fixture.started[0].lost = DeviceError("gone")
    with pytest.raises(DecodeLostError, match="gone"):
        decodes.beside(SMALL, SLICED)


def test_decode_that_fails_its_first_steps_is_closed() -> None:
    class Lost(Fixture):
        def _start(self, workload: Workload, colocation: Colocation) -> WorldlyDecode:
            decode = super()._start(workload, colocation)
            decode.lost = DeviceError("gone")
            return decode

    fixture = Lost()
    with pytest.raises(DecodeLostError):
        fixture.decodes().beside(SMALL, SAME)
    assert fixture.started[0].closed


@pytest.mark.parametrize(("step_s", "least"), [(0.0001, 500), (0.004, 40), (0.3, 9), (5.0, 1)])
def test_steps_are_watched_for_long_enough(step_s: float, least: int) -> None:
    world = World()
    steps = quiet_steps(WorldlyDecode(world, step_s), world.host)
    assert len(steps) >= least
    np.testing.assert_allclose(steps, step_s)
