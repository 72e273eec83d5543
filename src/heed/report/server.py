"""Serve the pages of all runs of a folder to the browsers of this machine."""

import hashlib
import re
import time
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from heed.errors import HeedError
from heed.report.pages import render_template
from heed.report.run_page import REPORT_FILE, render_report
from heed.runs.claim import FAILURE, find_state
from heed.runs.config import RUN_CONFIG
from heed.runs.table import read_runs

HOSTS = ("localhost", "127.0.0.1")
"""Names of this server. The owner of another name could point it at this machine, to read the runs with a page."""
LIST_SECONDS = 5  # how long a list of runs is kept


def make_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server at 127.0.0.1; port 0 is any free one. Raise a HeedError if there is no folder or port."""
    if not folder.is_dir():
        raise HeedError(f"There is no folder {folder}: name the one that holds the runs, such as runs.")
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, folder=folder.resolve()))
    except (OSError, OverflowError) as error:
        raise HeedError(f"Port {port} cannot be used ({error}): choose another one with --port.") from error


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD with the list of runs or the page of a run; it sends no files.

    The ETag of a page changes when there is something new to see. Pages ask for it, and load themselves again.
    """

    server_version, sys_version = "heed", ""

    def __init__(self, *args: Any, folder: Path) -> None:
        self.folder = folder
        super().__init__(*args)

    def handle(self) -> None:
        with suppress(ConnectionError):  # the browser hung up
            super().handle()

    def do_GET(self) -> None:
        if self.headers.get("Host", "").partition(":")[0] not in HOSTS:
            return self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "This server is for its own machine")
        try:
            self._answer(unquote(urlsplit(self.path).path).lstrip("/"))
        except (OSError, ValueError) as error:  # a HeedError, or a NUL in the path
            self.send_error(HTTPStatus.NOT_FOUND, explain=str(error))

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, path: str) -> None:
        run = (self.folder / path).resolve().parent
        if not path:
            page = version = _list_page(self.folder, round(time.monotonic() / LIST_SECONDS))
        elif path.rpartition("/")[2] == REPORT_FILE and run.is_relative_to(self.folder):
            page, version = render_report(run) if self.command == "GET" else "", _version(run)
        else:
            raise HeedError("Only the pages of runs are here.")
        content = page.encode("utf-8", "replace")
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha256(version.encode("utf-8", "replace")).hexdigest()[:16]}"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Print no requests."""


def _version(run: Path) -> str:
    """Return a text that changes with the state of a run and at each of its validations, but not at each step."""
    times = sorted((file.name, file.stat().st_mtime_ns) for file in run.glob("*.*") if file.suffix != ".csv")
    return f"{find_state(run)} {times}"


@lru_cache(maxsize=1)
def _list_page(folder: Path, tick: int) -> str:
    """Return the list of runs, newest first; ``tick`` changes when it is to be read again."""
    try:
        rows = read_runs(folder)
    except HeedError:  # there are none yet
        rows = []
    for row in rows:
        files = [folder / row["run"] / name for name in (RUN_CONFIG, FAILURE)]
        started = datetime.fromtimestamp(max(file.stat().st_mtime for file in files if file.exists()))
        words = re.split(r" (?=[\w+~./@-]+=)", row["settings"])
        settings = [(name, value.strip("'\"")) for name, _, value in (word.partition("=") for word in words) if name]
        row |= {"started": started, "href": f"/{quote(row['run'])}/{REPORT_FILE}", "settings": settings}
    return render_template("runs.html.j2", path=folder, runs=sorted(rows, key=lambda row: row["started"])[::-1])
