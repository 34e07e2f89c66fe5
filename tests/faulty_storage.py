"""A Cloud Storage that fails at random: an emulator, and before it a proxy that injects faults.

The proxy also does what Cloud Storage does and the emulator does not: it answers 499 to the end of
an upload that was given up.
"""

import http.client
import json
import logging
import os
import random
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fsspec
import pytest

# gcsfs asks nobody else for credentials and kinds of buckets, here and in processes that start
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
os.environ["FSSPEC_GS_TOKEN"] = "anon"
fsspec.config.conf["gs"] = {"token": "anon"}
DROPPED = "connection dropped before the request was done"
LOST = "answer lost"
CUT = "answer cut off in the middle"
FAULTS: tuple[int | str, ...] = (429, 500, 502, 503, 504, DROPPED, LOST, CUT)


class FaultyStorage:
    """A proxy on a port of its own; `rate` of the requests get a fault, 0 none."""

    def __init__(self, emulator: tuple[str, int], rate: float, seed: int) -> None:
        self.rate, self.num_requests, self.faults = rate, 0, Counter[str]()
        self.status: int | None = None  # answer all requests with this one
        self._emulator, self._rng = emulator, random.Random(seed)
        self._one = threading.Lock()  # the emulator answers one at a time
        storage = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if self.raw_requestline and self.parse_request():
                    storage._handle(self)
                self.close_connection = True

        self.server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        key = handler.command, handler.path
        with self._one:
            fault = self._draw(key)
            if fault == DROPPED:
                return
            if isinstance(fault, int):
                error = {"error": {"code": fault, "message": "a fault that was injected"}}
                _answer(handler, fault, {}, json.dumps(error).encode())
                return
            status, headers, content = self._forward(handler, body)
        if fault == LOST:
            return
        if fault == CUT:
            headers["Content-Length"] = str(len(content) + 1)
            content = content[: len(content) // 2]
        _answer(handler, status, headers, content)

    def _draw(self, key: tuple[str, str]) -> int | str | None:
        self.num_requests += 1
        if self.status is not None:
            return self.status
        if self._rng.random() >= self.rate:
            return None
        fault = self._rng.choice(FAULTS)
        self.faults[str(fault)] += 1
        return fault

    def _forward(
        self, handler: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        if handler.command == "DELETE" and "upload_id=" in handler.path:
            return 499, {}, b""
        connection = http.client.HTTPConnection(*self._emulator, timeout=60)
        try:
            connection.request(handler.command, handler.path, body or None, dict(handler.headers))
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed, or that did not wait."""


@contextmanager
def faulty_storage(rate: float, seed: int, bucket: str) -> Iterator[tuple[FaultyStorage, str]]:
    """The storage with an empty bucket, and a URL at which the same never fails."""
    from gcp_storage_emulator.server import create_server

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logging.getLogger("gcp_storage_emulator").setLevel(logging.ERROR)
    logging.getLogger("api").setLevel(logging.CRITICAL)
    emulator = create_server("127.0.0.1", port, in_memory=True, default_bucket=bucket)
    emulator.start()
    faulty, sound = (FaultyStorage(("127.0.0.1", port), share, seed) for share in (rate, 0.0))
    for storage in (faulty, sound):
        threading.Thread(target=storage.server.serve_forever, daemon=True).start()
    try:
        yield faulty, sound.url
    finally:
        for storage in (faulty, sound):
            storage.server.shutdown()
            storage.server.server_close()
        emulator.stop()


@contextmanager
def storage_of_gs(bucket: str) -> Iterator[FaultyStorage]:
    """The storage that gs:// addresses reach, which does not fail yet."""
    pytest.importorskip("gcp_storage_emulator.server")
    system = pytest.importorskip("gcsfs").GCSFileSystem
    with faulty_storage(0.0, 0, bucket) as (faulty, _), pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", faulty.url)
        system.clear_instance_cache()
        yield faulty
    system.clear_instance_cache()


def _answer(
    handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes
) -> None:
    handler.log_request = lambda *_: None  # type: ignore[method-assign]
    handler.send_response_only(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        if name.lower() not in ("server", "date", "connection", "transfer-encoding"):
            handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)
