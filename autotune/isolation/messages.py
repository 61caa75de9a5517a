"""What parent and child say to each other over their pipe."""

import sys
import traceback
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pega_tune.autotune.engine import Capabilities, Conditions, Measurement, TransferBlock
from pega_tune.autotune.serving import Segment, ServingBlock
from pega_tune.errors import PegaTuneError
from pega_tune.kernels.facts import DeviceFacts


class RemoteError(RuntimeError):
    """An error in the child that nobody expected: a bug of ours. Its text ends with the child's traceback."""


class Ask(Enum):
    """A request without arguments."""

    CAPABILITIES = "capabilities"
    CONDITIONS = "conditions"
    CLOSE = "close"


class Done(Enum):
    """The end of a request that is answered by more than one message."""

    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception, described rather than pickled: its class may live in a module that the parent must not load.

    Attributes:
        classes: (module, name) of the class and its bases, most derived first; empty if it was not expected.
        message: what is wrong, or the traceback of an error that was not expected.
        hint: what to do; may be empty.
    """

    classes: tuple[tuple[str, str], ...]
    message: str
    hint: str = ""

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Describes an exception that has just been caught."""
        if not isinstance(error, PegaTuneError):
            return cls((), "".join(traceback.format_exception(error)))
        bases = tuple((base.__module__, base.__qualname__) for base in type(error).__mro__)
        return cls(bases, error.message, error.hint)

    def error(self) -> PegaTuneError | RemoteError:
        """The exception again, as the most derived class whose module is loaded in this process."""
        if not self.classes:
            return RemoteError(f"the engine process failed\n{self.message}")
        for module, name in self.classes:
            found = getattr(sys.modules.get(module), name, None)
            if isinstance(found, type) and issubclass(found, PegaTuneError):
                error = found.__new__(found)
                PegaTuneError.__init__(error, self.message, self.hint)  # derived classes may take other arguments
                return error
        return PegaTuneError(self.message, self.hint)


Request: TypeAlias = Ask | TransferBlock | ServingBlock
Reply: TypeAlias = DeviceFacts | Capabilities | Conditions | Measurement | Segment | Done | Failure
"""`DeviceFacts` is what a child says first, when its engine is ready."""
