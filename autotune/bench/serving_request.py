"""What a benchmark beside decode is asked for."""

from dataclasses import dataclass, field
from typing import Final

from pega_tune.autotune.bench.batch import BatchRequest, require_rounds
from pega_tune.autotune.bench.serving_groups import Group
from pega_tune.autotune.serving import DecodeSpec, MpsShare, Pacing
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.terms import Colocation

DEFAULT_GROUPS: Final = (Group.RULES, Group.BEST)


@dataclass(frozen=True, slots=True)
class ServingBenchRequest(BatchRequest):
    """What to move beside what.

    Attributes:
        ranges, range_bytes, layout, seed: as in `BatchRequest`.
        groups: which settings to compare.
        colocations: where decode runs; not idle.
        decode: what decodes.
        pacing: of the bursts.
        rounds: segments of every setting; None measures until a p99 may be claimed.
        mps: what MPS grants the transfers.
    """

    groups: tuple[Group, ...] = DEFAULT_GROUPS
    colocations: tuple[Colocation, ...] = (Colocation.TIME_SLICED, Colocation.SAME_CONTEXT)
    decode: DecodeSpec = field(default_factory=DecodeSpec)
    pacing: Pacing = field(default_factory=Pacing)
    rounds: int | None = None
    mps: MpsShare = field(default_factory=MpsShare)

    def __post_init__(self) -> None:
        BatchRequest.__post_init__(self)  # `super()` does not work in classes with slots
        if self.rounds is not None:
            require_rounds(self.rounds)
        self.decode.require_known()
        if Colocation.IDLE in self.colocations:
            raise UsageError("beside decode there is no idle device", "`pega-tune bench transfer` measures without it")
        if not self.colocations or not self.groups:
            raise UsageError("a serving benchmark needs a colocation and something to compare")
        named = Group.MPS_SHARES in self.groups and set(self.groups) != set(Group)  # all of them are what there is
        if named and Colocation.MPS not in self.colocations:
            words = ", ".join(self.colocations)
            raise UsageError(
                f"mps-shares compares what MPS grants, and mps is not among the colocations ({words})",
                "add --colocation mps, or compare something else",
            )
        self.shape(Direction.BOTH)
