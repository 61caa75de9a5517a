"""How a database on a server is opened, refused and used."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event
from sqlalchemy.exc import DataError, DBAPIError, InterfaceError, OperationalError, ProgrammingError

from pega_tune.profiles.store.access import Access
from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.errors import DatabaseRefusedError, StoreError, UnknownOutcomeError
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.server import server_engine
from pega_tune.profiles.store.server_errors import Trouble, is_down, is_starting, trouble_of
from pega_tune.profiles.store.store import Store
from tests.helpers.places import Place, plain, server_place
from tests.helpers.postgresql import Server
from tests.helpers.store import HOST, host_view, sweep_record

psycopg = pytest.importorskip("psycopg", exc_type=ModuleNotFoundError)


@pytest.fixture
def place(postgresql: Server) -> Place:
    return server_place(postgresql)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_all_names_of_one_kind(scheme: str) -> None:
    database = Database.parse(f"{scheme}://me:word@host/x")
    assert (database.url.drivername, str(database)) == ("postgresql+psycopg", "postgresql://me@host/x")


@pytest.mark.parametrize("url", ["postgresql://me:s3cret@host/x", "postgresql://me@host/x?password=s3cret"])
def test_no_password_is_in_what_a_reporter_of_errors_shows(url: str) -> None:
    database = Database.parse(url)
    engine = server_engine(database, Access.READ, HostView())
    for shown in (database, str(database), engine, engine.url, str(engine.url), engine.pool, vars(engine.pool)):
        assert "s3cret" not in repr(shown)
    assert database.secrets == {"password": "s3cret"}


def test_a_password_in_the_options_opens_the_database_too(postgresql: Server, place: Place) -> None:
    head, _, tail = place.url.partition("@")
    user, _, password = head.rpartition(":")
    with Store.open(f"{user}@{tail}&password={password}", host=host_view()) as store:
        assert store.sweeps() == ()


def test_an_error_brings_none_of_the_driver_with_it(postgresql: Server) -> None:
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        Store.open(postgresql.url("postgres", password="wr0ng"), host=host_view())
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_an_unknown_outcome_brings_none_of_the_driver_with_it(place: Place) -> None:
    with Store.open(place.url, host=host_view()) as store:
        store.add_sweep(sweep_record(pid=None, host="elsewhere", state="interrupted"))
        lose_the_answer(store)
        with pytest.raises(UnknownOutcomeError) as caught:
            store.claim("aa11", 1, HOST)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_a_driver_that_is_not_ours_is_refused() -> None:
    with pytest.raises(DatabaseRefusedError, match="psycopg2"):
        Database.parse("postgresql+psycopg2://me@host/x")


def test_an_encoding_that_cannot_hold_all_text_is_refused(postgresql: Server) -> None:
    url = postgresql.url(postgresql.create("template0 ENCODING 'LATIN1'"))
    with pytest.raises(DatabaseRefusedError, match="LATIN1"):
        Store.open(url, host=host_view())


def test_a_database_of_another_program_is_refused(postgresql: Server) -> None:
    url = postgresql.url(postgresql.create())
    with plain(url) as connection:
        connection.exec_driver_sql("CREATE TABLE bookmark (url TEXT)")
    with pytest.raises(DatabaseRefusedError, match="another program"):
        Store.open(url, host=host_view())


def test_who_may_only_read_can_read(postgresql: Server, place: Place) -> None:
    name = place.url.partition("@/")[2].partition("?")[0]
    with plain(place.url) as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        with Store.open(place.url, read_only=True, host=host_view()) as store:
            assert store.sweeps() == ()
    finally:
        with plain(postgresql.url("postgres")) as connection:
            connection.exec_driver_sql(f"ALTER DATABASE {name} RESET default_transaction_read_only")


def end_connections(place: Place) -> None:
    with plain(place.url) as connection:
        mine = "datname = current_database() AND pid <> pg_backend_pid()"
        connection.exec_driver_sql(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {mine}")


def test_a_connection_that_was_ended_is_replaced(place: Place) -> None:
    with Store.open(place.url, host=host_view()) as store:
        store.add_sweep(sweep_record())
        end_connections(place)
        assert store.sweep("aa11").sweep == sweep_record()
        end_connections(place)
        store.add_sweep(sweep_record("bb22"))
    assert place.counts()["sweep"] == 2


def lose_the_answer(store: Store) -> None:
    """Lets the connection end right after the next commit has reached the server."""
    engine = store._transactions._engine
    left = [True]

    @event.listens_for(engine, "commit")
    def commit(connection: object) -> None:
        if left.pop() if left else False:
            raw = connection.connection.driver_connection  # type: ignore[attr-defined]
            raw.commit()
            raw.close()


def test_what_was_saved_before_the_answer_was_lost_is_there_once(place: Place) -> None:
    with Store.open(place.url, host=host_view()) as store:
        lose_the_answer(store)
        store.add_sweep(sweep_record())
    assert place.counts()["sweep"] == 1


def test_a_claim_whose_answer_was_lost_says_so(place: Place) -> None:
    with Store.open(place.url, host=host_view()) as store:
        store.add_sweep(sweep_record(pid=None, host="elsewhere", state="interrupted"))
        lose_the_answer(store)
        with pytest.raises(UnknownOutcomeError):
            store.claim("aa11", 1, HOST)


def raised(kind: type[DBAPIError], cause: type[Exception], text: str = "") -> DBAPIError:
    return kind("SELECT", {}, cause(text))


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (raised(OperationalError, psycopg.OperationalError, "connection refused"), Trouble.AWAY),
        (raised(OperationalError, psycopg.errors.AdminShutdown), Trouble.AWAY),
        (raised(OperationalError, psycopg.errors.SerializationFailure), Trouble.BUSY),
        (raised(OperationalError, psycopg.errors.DeadlockDetected), Trouble.BUSY),
        (raised(OperationalError, psycopg.errors.LockNotAvailable), Trouble.BUSY),
        (raised(OperationalError, psycopg.errors.DiskFull), Trouble.FULL),
        (raised(OperationalError, psycopg.errors.TooManyConnections), Trouble.FULL),
        (raised(ProgrammingError, psycopg.errors.InsufficientPrivilege), Trouble.FORBIDDEN),
        (raised(ProgrammingError, psycopg.errors.UndefinedTable), Trouble.LACKS),
        (raised(ProgrammingError, psycopg.ProgrammingError, "invalid connection option \"x\""), Trouble.OPTION),
        (raised(DataError, psycopg.DataError, "cannot contain NUL"), Trouble.VALUE),
        (raised(InterfaceError, psycopg.errors.DataCorrupted), Trouble.DAMAGED),
        (raised(ProgrammingError, psycopg.errors.SyntaxError), None),
        (raised(ProgrammingError, psycopg.ProgrammingError, "the query has 1 placeholder"), None),
    ],
)  # fmt: skip
def test_what_an_error_means(error: DBAPIError, trouble: Trouble | None) -> None:
    assert trouble_of(error) is trouble


def test_a_name_that_no_database_takes_is_refused(place: Place) -> None:
    with Store.open(place.url, host=host_view()) as store, pytest.raises(StoreError, match="NUL"):
        store.add_sweep(sweep_record(request="\0"))


def test_a_server_that_is_down_for_a_moment_is_waited_for(postgresql: Server, place: Place) -> None:
    Store.open(place.url, host=host_view()).close()
    postgresql.stop()
    with pytest.raises(StoreError, match="is not usable"):
        Store.open(place.url, host=host_view())
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(Store.open, place.url, host=host_view(away_s=60.0))
        try:
            with pytest.raises(TimeoutError):
                opening.result(timeout=0.3)
        finally:
            postgresql.start()
        with opening.result() as store:
            assert store.sweeps() == ()


@pytest.mark.parametrize(
    ("words", "down", "starting"),
    [
        ('connection to server at "::1", port 1 failed: Connection refused', True, False),
        ('connection to server on socket "/x" failed: No such file or directory', True, False),
        ('connection to server at "::1", port 1 failed: FATAL:  the database system is starting up', False, True),
        ('connection to server at "::1", port 1 failed: FATAL:  the database system is shutting down', False, True),
        ('connection to server at "::1", port 1 failed: FATAL:  database "x" does not exist', False, False),
    ],
)
def test_what_a_connection_that_failed_says(words: str, down: bool, starting: bool) -> None:
    error = OperationalError("connect", None, psycopg.OperationalError(words))
    assert (is_down(error), is_starting(error)) == (down, starting)
    other = ProgrammingError("SELECT", None, psycopg.ProgrammingError(words))
    assert not is_down(other)
