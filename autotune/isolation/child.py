"""The child's side: build the engine, answer requests, and never outlive the parent."""

import os
from multiprocessing.connection import Connection

from pega_tune.autotune.engine import Capabilities, Conditions, Engine, EngineFactory, TransferBlock
from pega_tune.autotune.isolation.environment import Environment
from pega_tune.autotune.isolation.messages import Ask, Done, Failure
from pega_tune.autotune.serving import ServingBlock
from pega_tune.kernels.interpreter import die_with
from pega_tune.profiles.policy.settings import change_environment

_STDOUT, _STDERR = 1, 2


def serve(
    connection: "Connection[object, object]", factory: EngineFactory, parent_pid: int, environment: Environment = ()
) -> None:
    """Runs an engine until the parent asks to close, or is gone.

    Args:
        connection: the child's end of the pipe.
        factory: builds the engine.
        parent_pid: of the process that is to outlive this one.
        environment: changed before the engine is built, and with it before CUDA is initialised.
    """
    die_with(parent_pid)
    change_environment(dict(environment))
    os.dup2(_STDERR, _STDOUT)  # stdout carries the parent's answer alone
    try:
        engine = factory()
        connection.send(engine.facts)
    except Exception as error:
        connection.send(Failure.of(error))
        return
    try:
        _answer(connection, engine)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    finally:
        engine.close()


def _answer(connection: "Connection[object, object]", engine: Engine) -> None:
    while (request := connection.recv()) is not Ask.CLOSE:
        try:
            if isinstance(request, TransferBlock | ServingBlock):
                taken = (
                    engine.transfer(request) if isinstance(request, TransferBlock) else engine.beside_decode(request)
                )
                for one in taken:
                    connection.send(one)
                connection.send(Done.BLOCK)
            else:
                connection.send(_asked(engine, request))
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:
            connection.send(Failure.of(error))


def _asked(engine: Engine, request: object) -> Capabilities | Conditions:
    if request is Ask.CAPABILITIES:
        return engine.capabilities()
    if request is Ask.CONDITIONS:
        return engine.conditions()
    raise TypeError(f"not a request: {request!r}")
