from pathlib import Path

import pytest

from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.run import run_sweep
from pega_tune.profiles.store.store import Store
from tests.helpers.sweeps import finished, sim_engine


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one published profile of the simulated H200, measured without decode; not to be changed."""
    path = tmp_path_factory.mktemp("verify") / "swept.db"
    with Store.open(f"sqlite:///{path}") as store:
        assert finished(list(run_sweep(SweepRequest(decode="none"), sim_engine(), store))).state == "published"
    return path
