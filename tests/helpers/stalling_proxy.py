"""A network that falls silent: a proxy that takes everything and, after some bytes, passes nothing back."""

import selectors
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

_CHUNK_BYTES = 4096


class StallingProxy:
    """Listens on a free port of this host; bytes from the server count over all connections.

    Attributes:
        port: where it listens.
        passed_bytes: how many have come from the server and were passed on.
    """

    def __init__(self, server: Path, limit_bytes: int) -> None:
        """`server` is a Unix socket; `limit_bytes` is how many of its bytes are passed on."""
        self._server = server
        self._limit_bytes = limit_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.passed_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(self._listener, selectors.EVENT_READ)
            while not self._ended.is_set():
                for key, _ in ready.select(0.05):
                    assert isinstance(key.fileobj, socket.socket)
                    if key.fileobj is self._listener:
                        self._join(ready)
                    elif key.fileobj.fileno() >= 0:  # not closed with its other end just now
                        self._pass_on(ready, key)
            for key in list(ready.get_map().values()):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()

    def _join(self, ready: selectors.BaseSelector) -> None:
        client, _ = self._listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._server))
        ready.register(client, selectors.EVENT_READ, (server, False))
        ready.register(server, selectors.EVENT_READ, (client, True))

    def _pass_on(self, ready: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        source, (target, counts) = key.fileobj, key.data
        assert isinstance(source, socket.socket)
        try:
            data = source.recv(_CHUNK_BYTES)
            passed = data[: self._limit_bytes - self.passed_bytes] if counts else data
            target.sendall(passed)
        except OSError:
            data = passed = b""
        if counts:
            self.passed_bytes += len(passed)
        if not data:
            for end in (source, target):
                ready.unregister(end)
                end.close()
