"""What a transfer does, stage by stage, in the terms of the event model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pega_tune.autotune.sim.link import Load


@dataclass(frozen=True, slots=True)
class Copy:
    """DMA commands in a row on one copy engine.

    Attributes:
        load: their bytes, submission included in the times.
        commands: how many.
        busy: share of the time in which the engine is at work; the rest it waits for the host.
    """

    load: Load
    commands: int
    busy: float


@dataclass(frozen=True, slots=True)
class Launch:
    """A copy kernel over mapped host memory.

    Attributes:
        load: its bytes.
        threads: that it wants on the SMs at once.
        room: threads that its SMs hold.
        partition: number of those SMs; None for all.
        in_flight_bytes: requested and not yet there, at any time.
    """

    load: Load
    threads: int
    room: int
    partition: int | None
    in_flight_bytes: float


@dataclass(frozen=True, slots=True)
class Gather:
    """A kernel between a staging buffer and the ranges, on the device alone.

    Attributes:
        duration_s: how long it takes.
        aside: whether the stages after it do not wait for it, only the end of the transfer.
    """

    duration_s: float
    aside: bool = False


Stage: TypeAlias = Copy | Launch | Gather
Lane: TypeAlias = tuple[Stage, ...]
"""Stages in the order of one stream."""


@dataclass(frozen=True, slots=True)
class Round:
    """What is submitted at once: a chunk of each direction.

    Attributes:
        lanes: one for each stream.
        submit_s: driver calls, and what passes before the first byte and after the last one is seen.
    """

    lanes: tuple[Lane, ...]
    submit_s: float


@dataclass(frozen=True, slots=True)
class Program:
    """A transfer.

    Attributes:
        rounds: one after another.
        prepare_s: ordering ranges and writing descriptors.
        holds_back: whether a round is submitted only when the one before has completed.
    """

    rounds: tuple[Round, ...]
    prepare_s: float
    holds_back: bool

    @property
    def stages(self) -> Iterator[Stage]:
        """All of them."""
        return (stage for turn in self.rounds for lane in turn.lanes for stage in lane)

    @property
    def uses_sms(self) -> bool:
        """Whether it runs any kernel."""
        return any(not isinstance(stage, Copy) for stage in self.stages)
