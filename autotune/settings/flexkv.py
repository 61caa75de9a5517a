"""FlexKV: CTAs of its copy kernel, or copy engines, for each direction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pega_tune.autotune.settings.setting import Ctas, Setting, Value
from pega_tune.autotune.settings.times import Times
from pega_tune.kernels.plan import CopyPlan, Variant, direct
from pega_tune.kernels.shape import Direction

NUM_CTA: Final = {Direction.H2D: "FLEXKV_TRANSFER_NUM_CTA_H2D", Direction.D2H: "FLEXKV_TRANSFER_NUM_CTA_D2H"}
USE_CE: Final = {Direction.H2D: "FLEXKV_USE_CE_TRANSFER_H2D", Direction.D2H: "FLEXKV_USE_CE_TRANSFER_D2H"}
"""Source: FlexKV, `docs/flexkv_config_reference/README_en.md`; 4 CTAs and no copy engines are the default."""

DEFAULT_CTAS: Final = 4
CTAS: Final = Ctas(Variant.BLOCK, 1024)


@dataclass(frozen=True, slots=True)
class _Way:
    """How one direction goes: on copy engines, or with so many CTAs."""

    plan: CopyPlan
    ctas: int = 0

    def values(self, direction: Direction) -> dict[str, Value]:
        if self.ctas == 0:
            return {USE_CE[direction]: 1}
        return {USE_CE[direction]: 0, NUM_CTA[direction]: self.ctas}


class FlexKV:
    """Implements `Engine`."""

    name = "flexkv"
    stands = (
        "CTAs of 1024 threads, each of which takes whole ranges; one memcpy per range for its copy engines, though it "
        "may find fewer, larger copies"
    )

    def settings(self, times: Times, sm_count: int) -> Iterator[Setting]:
        """Every way for loads with every way for saves."""
        ways = [_Way(plan, ctas) for ctas, plan in CTAS.known(times).items() if ctas <= sm_count]
        ways += [_Way(plan) for plan in times.known((direct(),))]
        legs = {leg for direction in times.mix.directions for leg in direction.legs}
        for load in ways if Direction.H2D in legs else ways[:1]:
            for save in ways if Direction.D2H in legs else ways[:1]:
                values = {
                    **(load.values(Direction.H2D) if Direction.H2D in legs else {}),
                    **(save.values(Direction.D2H) if Direction.D2H in legs else {}),
                }
                yield Setting.uniform(values, load.plan, save.plan)

    def default(self, times: Times) -> Setting | None:
        """4 CTAs each way."""
        plan = CTAS.plan(DEFAULT_CTAS, times)
        if plan is None:
            return None
        way = _Way(plan, DEFAULT_CTAS)
        return Setting.uniform({**way.values(Direction.H2D), **way.values(Direction.D2H)}, plan, plan)

    def lines(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """Variables."""
        return ("# In the environment of FlexKV:", *(f"export {name}={value}" for name, value in values.items()))
