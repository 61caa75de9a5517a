"""Faults to rehearse: what can go wrong on a device, switched on by the name of a simulated one.

`sim:h200+crash` is the device `sim:h200` on which one candidate crashes in every block; `sim:h200+crash=h2d/256x`
limits that to the blocks whose key contains `h2d/256x`. Several faults are joined: `sim:h200+throttled+slow`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from pega_tune.autotune.engine import CandidateKind, TransferBlock
from pega_tune.autotune.serving import ServingBlock
from pega_tune.errors import UsageError


@dataclass(frozen=True, slots=True)
class SimFaults:
    """What goes wrong. The victim in a block is its last plan candidate.

    Attributes:
        busy: another process has a context on the device before the sweep begins.
        contended: another process joins while blocks run.
        throttled: clocks are held down while blocks run.
        nomem: there is too little memory for anything.
        slow: blocks take real time, so that a sweep can be interrupted.
        mismatch: the victim moves wrong bytes, in blocks whose key contains this text; None switches it off.
        crash: the process kills itself when it times the victim, or runs it beside decode; likewise.
        hang: timing the victim never ends; likewise.
    """

    busy: bool = False
    contended: bool = False
    throttled: bool = False
    nomem: bool = False
    slow: bool = False
    mismatch: str | None = None
    crash: str | None = None
    hang: str | None = None

    @classmethod
    def parse(cls, words: Sequence[str]) -> "SimFaults":
        """From the words between the plus signs of a device name.

        Raises:
            UsageError: a word is no fault, or has a value that it does not take.
        """
        kinds = {field.name: field.type for field in fields(cls)}
        values: dict[str, bool | str] = {}
        for word in words:
            name, equals, text = word.partition("=")
            if name not in kinds:
                raise UsageError(f"a simulated device has no fault {name!r}", f"choose from: {', '.join(kinds)}")
            if kinds[name] is bool and equals:
                raise UsageError(f"the fault {name!r} takes no value", "only mismatch, crash and hang can be narrowed")
            values[name] = True if kinds[name] is bool else text
        return cls(**values)  # type: ignore[arg-type]  # each field has the type checked just above

    def hits(self, narrowing: str | None, block: TransferBlock | ServingBlock, candidate: int) -> bool:
        """Whether a fault that is switched on and narrowed to some keys strikes a candidate of a block."""
        if narrowing is None or narrowing not in block.key:
            return False
        plans = [i for i, c in enumerate(block.candidates) if c.kind is CandidateKind.PLAN]
        return bool(plans) and candidate == plans[-1]
