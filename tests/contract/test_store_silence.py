"""A server that is there and says nothing, in the middle of an answer, is given up."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from pega_tune.autotune.fleet.exchange import Pulled, patient_host, pull
from pega_tune.errors import DataError
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import DEVICE, bundle
from tests.helpers.places import Place, server_place
from tests.helpers.postgresql import Server
from tests.helpers.stalling_proxy import StallingProxy
from tests.helpers.store import host_view, sqlite_url

_HOST = host_view(busy_timeout_s=0.2, give_up_s=0.5, silence_s=0.5)
_LONG_S = 60.0
_WITHOUT_END_BYTES = 1 << 40


@pytest.fixture
def place(postgresql: Server) -> Place:
    """A fleet with one profile."""
    place = server_place(postgresql)
    with Store.open(place.url, host=host_view()) as store:
        store.import_bundle(bundle())
    return place


class Host:
    """A host that pulls through a proxy, into a file of its own."""

    def __init__(self, place: Place, path: Path) -> None:
        user, _, rest = place.url.partition("@/")
        self._user = user
        self._name, _, folder = rest.partition("?host=")
        self._socket = Path(folder) / ".s.PGSQL.5432"
        self._path = path

    def pull(self, limit_bytes: int) -> tuple[Pulled, int]:
        """What came of it, and how many bytes the server sent."""
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(1))
            proxy = stack.enter_context(StallingProxy(self._socket, limit_bytes))
            local = stack.enter_context(Store.open(sqlite_url(self._path), host=host_view()))
            url = f"{self._user}@127.0.0.1:{proxy.port}/{self._name}?connect_timeout=2"
            return pool.submit(pull, url, local, DEVICE, _HOST).result(_LONG_S), proxy.passed_bytes


def test_a_peer_that_falls_silent_is_given_up_wherever_it_does(place: Place, tmp_path: Path) -> None:
    pulled, whole_bytes = Host(place, tmp_path / "first.db").pull(_WITHOUT_END_BYTES)
    assert pulled.added
    new, full = Host(place, tmp_path / "new.db"), Host(place, tmp_path / "first.db")
    for share in (0.02, 0.3, 0.6, 0.9):
        limit_bytes = int(share * whole_bytes)
        with pytest.raises(DataError, match=r"is not usable: .*(nothing has come|timeout)"):
            new.pull(limit_bytes)
        kept, _ = full.pull(limit_bytes)
        assert "is not usable" in kept.kept


def test_a_host_of_a_fleet_does_not_wait_without_end() -> None:
    host = patient_host()
    assert host.busy_timeout_s < host.silence_s <= host.give_up_s
