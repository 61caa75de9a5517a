"""What a user asks of a sweep; its JSON form is stored, so that a resumed sweep plans the same blocks."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pega_tune.autotune.serving import DEFAULT_MODEL, EXTERNAL, DecodeSpec
from pega_tune.autotune.sweep.presets import find_preset
from pega_tune.errors import DataError, PegaTuneError, UsageError
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation

NO_DECODE = "none"
BUILTIN = "builtin"
_SOURCES = (BUILTIN, "torch", NO_DECODE)


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """What to measure, and with how much time and memory.

    Attributes:
        preset: name of the preset.
        budget_s: wall time in seconds, instead of the preset's; None keeps that.
        shapes: measured before the preset's own shapes. Blocks know counts alone, so host runs, alignment and
            pitch are dropped.
        colocations: where decode runs. `idle` is always among them, since what runs beside decode is chosen by what it
            does alone; none takes those of the preset.
        decode: `builtin`, `torch`, `external:CMD`, or `none` for idle alone; empty for the first of them that the
            colocations allow.
        model: shape of the decode workload, as in `DecodeSpec`.
        max_device_bytes: most device memory of a block, in bytes; None takes what the device gives.
        max_host_bytes: most pinned host memory of a block, in bytes; None likewise.
        allow_busy: measure although other processes use the device.
        seed: of every random choice.

    Raises:
        UsageError: a value makes no sense.
    """

    preset: str = "quick"
    budget_s: float | None = None
    shapes: tuple[TransferShape, ...] = ()
    colocations: tuple[Colocation, ...] = ()
    decode: str = ""
    model: str = DEFAULT_MODEL
    max_device_bytes: int | None = None
    max_host_bytes: int | None = None
    allow_busy: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        find_preset(self.preset)
        if self.budget_s is not None and not 0 < self.budget_s < float("inf"):
            raise UsageError(f"a budget is a positive time, not {self.budget_s} s")
        for option, limit in (
            ("--max-device-memory", self.max_device_bytes),
            ("--max-host-memory", self.max_host_bytes),
        ):
            if limit is not None and limit < 1:
                raise UsageError(f"{option} is at least 1 byte, not {limit}")
        self._settle_decode()
        plain = (TransferShape(s.merged_ranges, s.total_bytes, s.direction) for s in self.shapes)
        object.__setattr__(self, "shapes", tuple(dict.fromkeys(plain)))

    def _settle_decode(self) -> None:
        """Fills in colocations and decode workload; stored requests have both."""
        preset = find_preset(self.preset).serving
        asked = self.colocations or ((Colocation.IDLE,) if self.decode == NO_DECODE else preset.colocations)
        colocations = tuple(dict.fromkeys((Colocation.IDLE, *asked)))
        beside = colocations[1:]
        decode = self.decode or (BUILTIN if beside else NO_DECODE)
        if decode not in _SOURCES and not decode.startswith(EXTERNAL):
            raise UsageError(
                f"there is no decode workload {decode!r}", f"choose one of: {', '.join(_SOURCES)}, {EXTERNAL}CMD"
            )
        if beside and decode == NO_DECODE:
            words = ", ".join(map(str, beside))
            raise UsageError(f"nothing decodes with --decode none, but the colocation is {words}", "leave one out")
        object.__setattr__(self, "colocations", colocations)
        object.__setattr__(self, "decode", decode)
        if beside:
            DecodeSpec(decode, self.model).require_known()

    @property
    def decode_spec(self) -> DecodeSpec | None:
        """What decodes beside the transfers; None for idle alone."""
        return None if len(self.colocations) == 1 else DecodeSpec(self.decode, self.model)

    def capped(self, device_bytes: int, host_bytes: int) -> "SweepRequest":
        """The request with its memory limits lowered to what there is, both in bytes."""
        return replace(
            self,
            max_device_bytes=min(self.max_device_bytes or device_bytes, device_bytes),
            max_host_bytes=min(self.max_host_bytes or host_bytes, host_bytes),
        )

    def to_json(self) -> str:
        """Canonical JSON: one line, sorted keys."""
        content = asdict(self)
        content["shapes"] = [[s.merged_ranges, s.total_bytes, str(s.direction)] for s in self.shapes]
        content["colocations"] = [str(c) for c in self.colocations]
        return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "SweepRequest":
        """Inverse of `to_json`.

        Raises:
            DataError: the text is not a request, or one that this version cannot measure.
        """
        try:
            return cls(**_typed(json.loads(text)))
        except (ValueError, TypeError, KeyError, PegaTuneError) as error:
            raise DataError(f"the stored request of the sweep cannot be read: {error}", "start a new sweep") from error


def _typed(content: Mapping[str, Any]) -> dict[str, Any]:
    shapes = tuple(TransferShape(ranges, total, Direction(way)) for ranges, total, way in content["shapes"])
    colocations = tuple(Colocation(word) for word in content["colocations"])
    return {**content, "shapes": shapes, "colocations": colocations}
