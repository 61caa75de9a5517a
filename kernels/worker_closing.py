"""Which streams a program uses, and how to find out that all it has submitted to them is done."""

import numpy as np

from pega_tune.kernels.program import COMMAND, Commands, Op, Program


def streams_of(program: Program) -> tuple[int, ...]:
    """The streams that a program gives commands to, each once; last the one in which it ends."""
    last = int(program.commands["stream"][-1])
    submitting = program.commands["op"] != Op.BARRIER
    return *(int(s) for s in np.unique(program.commands["stream"][submitting]) if s != last), last


def closing_commands(program: Program) -> Commands:
    """Commands that follow a program, wherever it stopped.

    The end event is recorded behind everything in all of its streams: each in turn is made to precede the last one. The
    event serves for all of that, as a stream that waits for an event waits for what was recorded when it was told to.

    Returns:
        (n,) commands; the last is a barrier on the end event, and is alone what follows a program that went through.
    """
    *others, last = streams_of(program)
    rows = [row for other in others for row in ((Op.RECORD, other), (Op.AWAIT, last))]
    rows += [(Op.RECORD, last), (Op.BARRIER, last)]
    commands = np.zeros(len(rows), COMMAND)
    commands["op"], commands["stream"] = zip(*rows, strict=True)
    commands["a"] = program.end
    return commands
