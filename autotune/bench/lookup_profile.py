"""A profile to look up in, wherever a benchmark runs."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pega_tune.autotune.devices import find_device
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.run import run_sweep
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.sources import PACKAGED
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.store import Store

SIMULATED = "sim:h200"


@dataclass(frozen=True, slots=True)
class Subject:
    """Who answers.

    Attributes:
        auto: with a profile.
        source: where that comes from, in words.
    """

    auto: Auto
    source: str


def subject_for(auto: Auto, packaged: Path = PACKAGED) -> Subject:
    """Who answers: `auto`, if it has a profile; else a bundled one of any device; else one of a simulated sweep.

    Args:
        auto: for the device that was asked for.
        packaged: folder of the bundled profiles.

    Raises:
        DataError: a bundle is damaged.
    """
    if auto.profile is not None:
        return Subject(auto, f"the profile that fits the device (tier {auto.tier})")
    bundles = sorted(packaged.glob("*.json"))
    if bundles:
        return Subject(Auto.load(bundles[0]), "a bundled profile, as none fits the device")
    return Subject(simulated_auto(), f"a sweep of {SIMULATED} made for this, as no profile fits the device")


def simulated_auto(spec: str = SIMULATED) -> Auto:
    """`Auto` after a quick sweep of a simulated device, without decode; takes seconds, and keeps nothing."""
    choice = find_device(spec)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "profile.db"
        with Store.open(f"sqlite:///{path}") as store, closing(choice.factory()) as engine:
            for _ in run_sweep(SweepRequest(colocations=(Colocation.IDLE,)), engine, store):
                pass
        return Auto.for_device(choice.facts, path)
