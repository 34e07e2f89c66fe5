"""A stand-in of the Hugging Face hub on the loopback: what `datasets`, `huggingface_hub` and
`transformers` ask of it to read data sets and models. All is kept in memory.

A client reads `HF_ENDPOINT` when it is imported, so it runs in a process of its own: `Hub.environ`.
"""

import hashlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

Files = dict[str, bytes]  # by path in the repository
Fault = int | str  # a status of HTTP; "reset": the connection breaks; "slow": no answer for seconds
SLOW_SECONDS = 3.0
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NAME = r"(?P<name>[^/]+/[^/]+)"
_API = re.compile(
    rf"/api/(?P<kind>datasets|models)/{_NAME}"
    r"(?:/(?P<verb>[a-z-]+)(?:/(?P<revision>[^/]+)(?P<path>/.*)?)?)?"
)
_FILE = re.compile(rf"/(?P<kind>datasets/)?{_NAME}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


def digest(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


class Hub:
    """Repositories by "datasets" or "models" and name: the files of each commit, and the commit of
    each revision. `faults` go by the repository, `requests` is what was asked."""

    def __init__(self) -> None:
        self.commits: dict[tuple[str, str], dict[str, Files]] = {}
        self.revisions: dict[tuple[str, str], dict[str, str]] = {}
        self.faults: dict[str, Fault | tuple[Fault, int]] = {}  # with a number: so many times
        self.requests: list[str] = []
        self.watch: Callable[[str], object] = str  # is told of each request after its answer
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self.faults["*"] = "reset"  # of connections that are open
        self._server.shutdown()
        self._server.server_close()

    def add(self, kind: str, name: str, files: Files, revision: str = "main") -> str:
        """A commit of a repository, whose name is the revision if that is one; its name."""
        parts = b"".join(path.encode() + data for path, data in sorted(files.items()))
        commit = revision if _COMMIT.fullmatch(revision) else digest(name.encode() + parts)
        self.commits.setdefault((kind, name), {})[commit] = files
        self.revisions.setdefault((kind, name), {})[revision] = commit
        self.revisions[kind, name].setdefault("main", commit)
        return commit

    def environ(self, home: Path) -> dict[str, str]:
        """Of a process that asks this hub and keeps what it reads below `home`."""
        of_hub = {"HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_TOKEN": "made-up"}
        seconds = {"HF_HUB_ETAG_TIMEOUT": "1", "HF_HUB_DOWNLOAD_TIMEOUT": "1"}
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        # Xet's servers speak a protocol of their own
        return {**kept, **of_hub, **seconds, "HF_HUB_DISABLE_XET": "1", "OMP_NUM_THREADS": "1"}

    def fault(self, name: str) -> Fault | None:
        fault = self.faults.get("*") or self.faults.get(name)
        if isinstance(fault, tuple):
            fault, times = fault
            self.faults[name] = (fault, times - 1)
            return fault if times > 0 else None
        return fault


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, address: Any) -> None:
        """A client that has gone is no error of the hub's."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, address)


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: Any) -> None:
            pass

        def do_GET(self) -> None:
            raw = urlsplit(self.path).path  # a revision may hold %2F
            hub.requests.append(f"{self.command} {unquote(raw)}")
            match = _FILE.fullmatch(raw) or _API.fullmatch(raw)
            fault = hub.fault(match["name"] if match else "")
            if fault == "slow":
                time.sleep(SLOW_SECONDS)
            if fault == "reset":
                self.close_connection = True
                self.connection.shutdown(2)
            elif isinstance(fault, int):
                self.refuse(fault, {401: "RepoNotFound", 403: "GatedRepo"}.get(fault, "Busy"))
            elif match:
                parts = match.groupdict().items()
                self.answer(**{name: unquote(part or "") for name, part in parts})
            else:
                self.send({}, 200 if raw == "/" else 404)
            hub.watch(hub.requests[-1])

        def do_HEAD(self) -> None:
            self.do_GET()

        def send(self, body: Any, status: int = 200, heads: Mapping[str, str] = {}) -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            kind = "application/octet-stream" if data is body else "application/json"
            sizes = {"Content-Type": kind, "Content-Length": str(len(data))}
            for name, value in {**sizes, **heads}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def refuse(self, status: int, word: str, commit: str = "") -> None:
            heads = {"X-Error-Code": word, "X-Error-Message": f"made-up {word}"}
            self.send({"error": word}, status, heads | {"X-Repo-Commit": commit})

        def answer(
            self, name: str, kind: str, revision: str, path: str = "", verb: str = "file"
        ) -> None:
            repository = kind.strip("/") or "models", name
            revisions = hub.revisions.get(repository)
            if revisions is None:
                self.refuse(401, "RepoNotFound")
                return
            commit = revisions.get(revision or "main", revision)
            files = hub.commits[repository].get(commit)
            path = path.strip("/")
            if files is None:
                self.refuse(404, "RevisionNotFound")
            elif verb == "file" and path in files:
                heads = {"X-Repo-Commit": commit, "ETag": f'"{digest(files[path])}"'}
                self.send(files[path], 200, heads)
            elif verb == "tree" and (inside := _entries(files, f"{path}/" if path else "")):
                is_whole = "recursive=true" in self.path.lower()
                depth = path.count("/") + bool(path)
                self.send([e for p, e in inside.items() if is_whole or p.count("/") == depth])
            elif verb in ("file", "tree"):
                self.refuse(404, "EntryNotFound", commit)
            else:
                facts: dict[str, Any] = {"_id": "0", "id": name, "sha": commit, "tags": []}
                facts["siblings"] = [{"rfilename": p, "size": len(d)} for p, d in files.items()]
                self.send(facts)

    return Handler


def _entries(files: Files, begin: str) -> dict[str, dict[str, Any]]:
    """Folders and files as the hub lists them, whose paths begin so."""
    folders = {str(p): b"" for path in files for p in [*PurePosixPath(path).parents][:-1]}
    return {
        path: {
            "type": "file" if path in files else "directory",
            "oid": digest(data if path in files else path.encode()),
            "size": len(data),
            "path": path,
        }
        for path, data in (folders | files).items()
        if path.startswith(begin)
    }
