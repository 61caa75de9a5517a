"""The blocks of an exhaustive sweep: the whole plan space at a few transfers, without decode."""

from collections.abc import Iterator
from typing import Final

from pega_tune.autotune.engine import Capabilities, SamplingLimits, TransferBlock
from pega_tune.autotune.search.candidates import every_candidate
from pega_tune.autotune.search.sites import Site, exhaustive_sites
from pega_tune.autotune.sweep.keys import block_seed
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.shapes import Memory

LIMITS: Final = SamplingLimits(budget_s=0.3, min_rounds=8, max_rounds=16)
"""An even number of rounds, so that one half of them can judge what the other one chooses."""

CAVEAT: Final = "an exhaustive sweep compares all plans at a few transfers, and tells little of the others"


def exhaustive_blocks(request: SweepRequest, capabilities: Capabilities, memory: Memory) -> Iterator[TransferBlock]:
    """Every plan at the shapes of the user, or else at the places where all plans are compared.

    Args:
        request: whose shapes fit into memory.
        capabilities: of the device.
        memory: that a block may use.
    """
    sites = request.sites or exhaustive_sites(memory)
    return (_block(site, request.seed, capabilities) for site in sites)


def _block(site: Site, seed: int, capabilities: Capabilities) -> TransferBlock:
    return TransferBlock(
        key=site.key,
        shape=site.shape,
        candidates=every_candidate(site.described, capabilities),
        limits=LIMITS,
        seed=block_seed(seed, site.key),
        layout=site.layout,
    )
