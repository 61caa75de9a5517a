"""tokenspeed: how many programs its kernels for all layers at once may have."""

from collections.abc import Iterator, Mapping
from typing import Final

from pega_tune.autotune.settings.setting import Ctas, Setting, Value
from pega_tune.autotune.settings.times import Times
from pega_tune.autotune.static_rules import TRITON_THREADS
from pega_tune.kernels.plan import MAX_GRID_BLOCKS, Variant

CAP: Final = "TOKENSPEED_KV_ALL_LAYER_GRID_CAP"
"""Source: tokenspeed, pull request 439: the default is 32, and 0 takes the cap away."""

DEFAULT_CAP: Final = 32
NO_CAP: Final = 0
CTAS: Final = Ctas(Variant.BLOCK, TRITON_THREADS)


class TokenSpeed:
    """Implements `Engine`."""

    name = "tokenspeed"
    stands = "CTAs of 128 threads, each of which takes whole ranges"

    def settings(self, times: Times, sm_count: int) -> Iterator[Setting]:  # noqa: ARG002
        """All caps, and none."""
        for cap, plan in CTAS.known(times).items():
            yield Setting.uniform({CAP: cap}, plan, plan)
        full = CTAS.plan(MAX_GRID_BLOCKS, times)
        if full is not None:
            yield Setting.uniform({CAP: NO_CAP}, full, full)

    def default(self, times: Times) -> Setting | None:
        """A cap of 32."""
        plan = CTAS.plan(DEFAULT_CAP, times)
        return None if plan is None else Setting.uniform({CAP: DEFAULT_CAP}, plan, plan)

    def lines(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """A variable."""
        return ("# In the environment of the server; 0 takes the cap away:", f"export {CAP}={values[CAP]}")
