"""What a user asks of a sweep; its JSON form is stored, so that a resumed sweep plans the same blocks."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pega_tune.autotune.layouts import SHUFFLED, NamedLayout
from pega_tune.autotune.search.sites import Site
from pega_tune.autotune.serving import DEFAULT_MODEL, EXTERNAL, DecodeSpec
from pega_tune.autotune.sweep.observations import hint_of
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
        shapes: measured before the preset's own shapes, as equal ranges in the layout that has their host runs or
            pitch. Dropped are the alignment, and host runs that are too many to tell anything.
        colocations: where decode runs. `idle` is always among them, since what runs beside decode is chosen by what it
            does alone; none takes those of the preset.
        decode: `builtin`, `torch`, `external:CMD`, or `none` for idle alone; empty for the first of them that the
            colocations allow.
        model: shape of the decode workload, as in `DecodeSpec`.
        max_device_bytes: most device memory of a block, in bytes; None takes what the device gives.
        max_host_bytes: most pinned host memory of a block, in bytes; None likewise.
        allow_busy: measure although other processes use the device.
        seed: of every random choice.
        exhaustive: every plan that there is, at `shapes` alone if there are any, else at a few shapes of its own, as
            many as the preset's time allows; without decode.
        adaptive: at `shapes` and where every axis is looked at, search the whole plan space and compare what is left,
            in place of fixed lists of plans.

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
    exhaustive: bool = False
    adaptive: bool = False

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
        if self.exhaustive and self.adaptive:
            raise UsageError("an exhaustive sweep leaves nothing to search for", "leave --search out")
        self._settle_decode()
        object.__setattr__(self, "shapes", tuple(dict.fromkeys(_site(s).described for s in self.shapes)))

    def _settle_decode(self) -> None:
        """Fills in colocations and decode workload; stored requests have both."""
        preset = find_preset(self.preset).serving
        alone = self.exhaustive or self.decode == NO_DECODE
        asked = self.colocations or ((Colocation.IDLE,) if alone else preset.colocations)
        colocations = tuple(dict.fromkeys((Colocation.IDLE, *asked)))
        beside = colocations[1:]
        decode = self.decode or (BUILTIN if beside else NO_DECODE)
        if decode not in _SOURCES and not decode.startswith(EXTERNAL):
            raise UsageError(
                f"there is no decode workload {decode!r}", f"choose one of: {', '.join(_SOURCES)}, {EXTERNAL}CMD"
            )
        if self.exhaustive and (beside or decode != NO_DECODE):
            raise UsageError(
                "an exhaustive sweep measures nothing beside decode", "leave --decode and --colocation out"
            )
        if beside and decode == NO_DECODE:
            words = ", ".join(map(str, beside))
            raise UsageError(f"nothing decodes with --decode none, but the colocation is {words}", "leave one out")
        object.__setattr__(self, "colocations", colocations)
        object.__setattr__(self, "decode", decode)
        if beside:
            DecodeSpec(decode, self.model).require_known()

    @property
    def sites(self) -> tuple[Site, ...]:
        """Where the shapes are measured."""
        return tuple(map(_site, self.shapes))

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
        content["shapes"] = [_words(site) for site in self.sites]
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


def _site(shape: TransferShape) -> Site:
    """Where a shape is measured: shuffled, if tables learn nothing from what is known of its ranges."""
    plain = TransferShape(shape.merged_ranges, shape.total_bytes, shape.direction)
    layout = NamedLayout.fitting(shape)
    return Site(plain, SHUFFLED if hint_of(layout.described(plain)) is None else layout)


def _words(site: Site) -> list[int | str]:
    shape = site.shape
    words: list[int | str] = [shape.merged_ranges, shape.total_bytes, str(shape.direction)]
    return words if site.layout == SHUFFLED else [*words, str(site.layout)]


def _described(ranges: int, total: int, way: str, layout: str = str(SHUFFLED)) -> TransferShape:
    return NamedLayout.parse(layout).described(TransferShape(ranges, total, Direction(way)))


def _typed(content: Mapping[str, Any]) -> dict[str, Any]:
    shapes = tuple(_described(*words) for words in content["shapes"])
    colocations = tuple(Colocation(word) for word in content["colocations"])
    return {**content, "shapes": shapes, "colocations": colocations}
