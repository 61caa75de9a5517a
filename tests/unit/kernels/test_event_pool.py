from dataclasses import dataclass, field

from pega_tune.kernels.event_pool import EventPool


@dataclass
class FakeEvent:
    handle: int
    closed: list[int]

    def close(self) -> None:
        self.closed.append(self.handle)


@dataclass
class Maker:
    made: int = 0
    closed: list[int] = field(default_factory=list)

    def __call__(self) -> FakeEvent:
        self.made += 1
        return FakeEvent(self.made, self.closed)


def test_events_are_made_when_none_is_free_and_used_again_when_given_back() -> None:
    maker = Maker()
    with EventPool(maker) as pool:
        assert [pool.take(), pool.take()] == [1, 2]
        pool.give_back((1,))
        assert [pool.take(), pool.take()] == [1, 3]
        assert len(pool) == maker.made == 3
        assert maker.closed == []
    assert sorted(maker.closed) == [1, 2, 3]


def test_a_closed_pool_destroys_each_event_once() -> None:
    maker = Maker()
    pool = EventPool(maker)
    pool.take()
    pool.close()
    pool.close()
    assert maker.closed == [1]
