"""The process that decodes: it makes a probe, runs it, and ends when whoever started it says so, or is gone."""

import importlib
import json
import mmap
import os
import sys
import threading
import traceback
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from pega_tune.errors import PegaTuneError
from pega_tune.kernels.interpreter import die_with

if TYPE_CHECKING:  # what takes a second to import has to wait until this process is watched
    from pega_tune.autotune.cuda.serving.decode import ProbeMaker, Workload
    from pega_tune.kernels.decode.ring import StepRing

_STDIN: Final = 0
_GRACE_S: Final = 10.0  # for the step under way, and for giving everything back


def live(parent_pid: str, memory: str, maker: str, workload: str) -> None:
    """Decodes until stdin ends, or the parent does.

    Args:
        parent_pid: of the process that is to outlive this one.
        memory: number of the file descriptor of the ring.
        maker: `module:function` that makes the probe.
        workload: what decodes, as `workload_text` writes it.
    """
    die_with(int(parent_pid))
    try:
        _decode(int(memory), _maker(maker), workload)
    except PegaTuneError as error:
        _report(error)
    except Exception as error:
        traceback.print_exc()
        _report(PegaTuneError(f"a bug in the decode probe: {type(error).__name__}: {error}"))


def workload_text(workload: "Workload") -> str:
    """A workload as text."""
    return json.dumps({"spec": asdict(workload.spec), "ordinal": workload.ordinal})


def maker_name(make_probe: "ProbeMaker") -> str:
    """What finds the function in another process."""
    return f"{make_probe.__module__}:{make_probe.__qualname__}"


def _decode(memory: int, make_probe: "ProbeMaker", workload: str) -> None:
    from pega_tune.autotune.serving import DecodeSpec
    from pega_tune.kernels.decode.ring import StepRing

    ring = StepRing(memoryview(mmap.mmap(memory, os.fstat(memory).st_size)))
    threading.Thread(target=_stop_at_end_of_input, args=(ring,), daemon=True).start()
    told = json.loads(workload)
    with closing(make_probe(DecodeSpec(**told["spec"]), told["ordinal"])) as probe:
        probe.start(ring)
        probe.run()


def _stop_at_end_of_input(ring: "StepRing") -> None:
    while os.read(_STDIN, 1):  # not through `sys.stdin`, whose lock an interpreter that ends must be able to take
        pass
    ring.stop()
    threading.Event().wait(_GRACE_S)
    os._exit(1)


def _maker(name: str) -> "ProbeMaker":
    module, _, function = name.partition(":")
    make_probe: ProbeMaker = getattr(importlib.import_module(module), function)
    return make_probe


def _report(error: PegaTuneError) -> None:
    """Tells the parent, as the last line of output, why this process ends."""
    from pega_tune.autotune.isolation.messages import Failure

    failure = Failure.of(error)
    sys.stdout.flush()
    sys.stdout.write("\n" + json.dumps(asdict(failure)) + "\n")
    sys.stdout.flush()
    sys.exit(1)
