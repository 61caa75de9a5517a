"""Any engine, in a child process that may crash or hang: the parent goes on, and knows which candidate did it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from pega_tune.autotune.engine import (
    Capabilities,
    Conditions,
    EngineFactory,
    EngineLostError,
    Measurement,
    Status,
    TransferBlock,
)
from pega_tune.autotune.isolation.environment import EnvironmentOf, without_mps
from pega_tune.autotune.isolation.messages import Ask, Done, Failure, RemoteError
from pega_tune.autotune.isolation.mirrors import Block, BlockKind, ServingMirror, Taken, TransferMirror
from pega_tune.autotune.isolation.timeouts import Timeouts
from pega_tune.autotune.isolation.worker import ChildLostError, Loss, Worker
from pega_tune.autotune.serving import MpsShare, Segment, ServingBlock
from pega_tune.errors import PegaTuneError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.terms import Colocation

MAX_LOSSES = 3
"""Children lost in a row, without a whole block between them, after which the engine gives up."""

_HINT = "`pega-tune doctor` checks the device; what was measured before is kept"

_ALONE = Colocation.IDLE, MpsShare()
"""Stands for every colocation but MPS: all of them need the same environment."""

_T = TypeVar("_T", Capabilities, Conditions)


class IsolatedEngine:
    """Runs the engine of a factory in a spawned child, and replaces a child that is lost.

    A candidate that costs a child is reported as `CRASHED` or `TIMED_OUT`, and its block is run again without it in a
    fresh child: what the dead one had measured is discarded, because a block is one process. After `MAX_LOSSES`
    losses in a row the engine is lost. Used as `Engine`, by the thread that made it.
    """

    def __init__(
        self,
        factory: EngineFactory,
        timeouts: Timeouts | None = None,
        watch: Callable[[Measurement], None] | None = None,
        watch_segments: Callable[[Segment], None] | None = None,
        environment_of: EnvironmentOf = without_mps,
    ) -> None:
        """Starts the first child.

        Args:
            factory: builds the engine, in the child.
            timeouts: how long the child may be silent.
            watch: called with each measurement as it comes, those of a child that is lost later included.
            watch_segments: likewise with each segment.
            environment_of: the environment that a child needs for a block.

        Raises:
            PegaTuneError: as raised by the factory in the child.
            EngineLostError: the child does not start.
        """
        self._factory = factory
        self._timeouts = timeouts or Timeouts()
        self._transfers = BlockKind(TransferMirror, Measurement, watch)
        self._serving = BlockKind(ServingMirror, Segment, watch_segments)
        self._environment_of = environment_of
        self._place = _ALONE
        self._environment = environment_of(*_ALONE)
        self._worker: Worker | None = None
        self._begun = False
        self._losses = 0
        self._closed = False
        self._spawn()
        self._facts = self._await_start()

    @property
    def facts(self) -> DeviceFacts:
        """Which device it is."""
        return self._facts

    @property
    def pid(self) -> int | None:
        """Process id of the child; None while there is none."""
        return self._worker.pid if self._worker else None

    def capabilities(self) -> Capabilities:
        """As `Engine.capabilities`."""
        while True:
            try:
                return self._ask(Ask.CAPABILITIES, Capabilities)
            except ChildLostError as lost:
                self._count(lost.loss)

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        """As `Engine.transfer`; candidates that cost a child come first, the rest when the block is whole."""
        self._enter(_ALONE)
        return self._whole(self._transfers, block)

    def beside_decode(self, block: ServingBlock) -> Iterator[Segment]:
        """As `Engine.beside_decode`; candidates that cost a child come first, the rest when the block is whole."""
        self._enter((block.colocation, block.mps) if block.colocation is Colocation.MPS else _ALONE)
        return self._whole(self._serving, block)

    def conditions(self) -> Conditions:
        """As `Engine.conditions`; unknown if the child has been lost since the block."""
        if self._worker is None or not self._worker.alive:
            return Conditions(unknown="the engine process has ended since the block")
        try:
            return self._ask(Ask.CONDITIONS, Conditions)
        except ChildLostError as lost:
            self._count(lost.loss)
            return Conditions(unknown=f"the engine process was lost: {lost.loss.detail}")

    def renew(self) -> None:
        """Ends the child and starts a fresh one, for measurements that want several processes.

        It starts while the caller goes on. What is asked of the engine next waits for it, and raises what the
        constructor does. One that was a client of MPS is only ended: what is asked next says where the fresh one lives.
        """
        self._stop()
        if self._place == _ALONE:
            self._spawn()

    def close(self) -> None:
        """As `Engine.close`; may be called again."""
        self._closed = True
        self._stop()

    def _whole(self, kind: BlockKind[Block, Taken], block: Block) -> Iterator[Taken]:
        """Runs a block until nobody costs a child any more."""
        culprits: list[Taken] = []
        while True:
            outcome = self._attempt(kind, block)
            if isinstance(outcome, list):
                yield from culprits
                yield from outcome
                return
            if outcome is not None:
                culprits.append(outcome)
                block = replace(block, excluded=block.excluded | {outcome.candidate})

    def _attempt(self, kind: BlockKind[Block, Taken], block: Block) -> list[Taken] | Taken | None:
        """All that a block gives; or what is said of the candidate that cost the child; or None if it was nobody's."""
        worker = self._running()
        mirror = kind.mirror(block)
        taken: list[Taken] = []
        try:
            worker.send(block)
            while (reply := worker.receive(self._timeouts.before(block, not taken))) is not Done.BLOCK:
                if isinstance(reply, Failure):
                    raise self._loss_or_error(reply, started=bool(taken))
                assert isinstance(reply, kind.taken)
                mirror.record(reply)
                taken.append(reply)
                if kind.watch is not None:
                    kind.watch(reply)
        except ChildLostError as lost:
            self._count(lost.loss)
            return mirror.blame(lost.loss)
        except PegaTuneError:
            raise  # an orderly refusal: the child is ready for the next request
        except BaseException:
            self._drop()  # the rest of the block is still to come, and would be taken for the next answer
            raise
        self._losses = 0
        return taken

    def _loss_or_error(self, failure: Failure, *, started: bool) -> Exception:
        """An engine that fails on its way, or says that it is lost, is replaced; one that refuses a block is not."""
        error = failure.error()
        if isinstance(error, EngineLostError) or (started and isinstance(error, PegaTuneError)):
            return ChildLostError(Loss(Status.CRASHED, failure.message))
        return error

    def _ask(self, request: Ask, answer: type[_T]) -> _T:
        worker = self._running()
        try:
            worker.send(request)
            reply = worker.receive(self._timeouts.step_s)
        except ChildLostError:
            raise
        except BaseException:
            self._drop()
            raise
        if isinstance(reply, Failure):
            raise reply.error()
        assert isinstance(reply, answer)
        return reply

    def _running(self) -> Worker:
        if self._closed:
            raise EngineLostError("the engine has been closed")
        if self._begun and self._worker is not None and not self._worker.alive:
            self._count(Loss(Status.CRASHED, "the engine process was ended between two blocks"))
        if self._worker is None:
            self._spawn()
        if not self._begun:
            self._await_start()
        assert self._worker is not None
        return self._worker

    def _enter(self, place: tuple[Colocation, MpsShare]) -> None:
        """Ends a child that lives in another environment than a block needs."""
        if place == self._place:
            return
        if self._place != _ALONE:
            self._stop()  # before a daemon of which it is a client
        environment = self._environment_of(*place)
        self._stop()
        self._place, self._environment = place, environment

    def _spawn(self) -> None:
        self._worker, self._begun = Worker(self._factory, self._environment), False

    def _await_start(self) -> DeviceFacts:
        """Waits until the child has made its engine; one that dies over it is replaced."""
        while True:
            if self._worker is None:
                self._spawn()
            assert self._worker is not None
            try:
                reply = self._worker.receive(self._timeouts.start_s)
            except ChildLostError as lost:
                self._count(lost.loss)
                if lost.loss.status is Status.TIMED_OUT:  # to wait as long again would not help
                    raise EngineLostError(f"the engine process does not start: {lost.loss.detail}", _HINT) from None
                continue
            except BaseException:
                self._drop()
                raise
            if isinstance(reply, DeviceFacts):
                self._begun = True
                return reply
            self._drop()
            raise reply.error() if isinstance(reply, Failure) else RemoteError(f"not a beginning: {reply!r}")

    def _count(self, loss: Loss) -> None:
        """Takes note of a lost child.

        Raises:
            EngineLostError: it was one too many.
        """
        self._drop()
        self._losses += 1
        if self._losses >= MAX_LOSSES:
            message = f"the engine process was lost {self._losses} times in a row, the last time: {loss.detail}"
            raise EngineLostError(message, _HINT) from None

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def _stop(self) -> None:
        if not self._begun:
            self._drop()  # which would first finish starting
        elif self._worker is not None:
            self._worker.stop(self._timeouts.close_s)
            self._worker = None
