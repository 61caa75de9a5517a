"""SGLang HiCache: how many CTAs its copy kernel may have."""

from collections.abc import Iterator, Mapping
from typing import Final

from pega_tune.autotune.settings.setting import Ctas, Setting, Value
from pega_tune.autotune.settings.times import Times
from pega_tune.kernels.plan import Variant

QUOTA: Final = "SGLANG_HICACHE_BLOCK_QUOTA"
"""Source: sglang, `sgl-kernel/python/sgl_kernel/kvcacheio.py`, where the default is 2."""

DEFAULT_QUOTA: Final = 2
CTAS: Final = Ctas(Variant.WARP, 1024)
"""32 warps, each of which takes an item."""


class SGLang:
    """Implements `Engine`."""

    name = "sglang"
    stands = "CTAs of 1024 threads, a warp for each range; SGLang's words have 8 bytes, ours 16 where aligned"

    def settings(self, times: Times, sm_count: int) -> Iterator[Setting]:
        """All quotas up to one CTA for each SM."""
        for quota, plan in CTAS.known(times).items():
            if quota <= sm_count:
                yield Setting.uniform({QUOTA: quota}, plan, plan)

    def default(self, times: Times) -> Setting | None:
        """A quota of 2."""
        plan = CTAS.plan(DEFAULT_QUOTA, times)
        return None if plan is None else Setting.uniform({QUOTA: DEFAULT_QUOTA}, plan, plan)

    def lines(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """A variable, and the option without which it is not looked at."""
        return (
            "# In the environment of the server, which runs with --hicache-io-backend kernel:",
            f"export {QUOTA}={values[QUOTA]}",
        )
