"""The server of pages: which runs it lists, what it refuses, and when a page has something new."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from heed.errors import HeedError
from heed.report import server as server_module
from heed.report.server import make_server
from heed.runs.claim import locked
from tests.report.html import Page
from tests.report.runs import make_run, results

Ask = Callable[..., tuple[HTTPResponse, str]]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "my runs"
    make_run(folder / "mine" / "2026-01-01_00-00-00")
    other = make_run(folder / "mine" / "2026-01-02_00-00-00")
    (other / "results.json").write_text(results())
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "config.yaml").write_text("seed: 1\n")  # a run, but outside the folder
    return folder


@pytest.fixture
def ask(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    monkeypatch.setattr(server_module, "LIST_SECONDS", 1e-6)
    with make_server(runs, 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()

        def ask(path: str, *, method: str = "GET", host: str = "") -> tuple[HTTPResponse, str]:
            connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
            connection.request(method, path, headers={"Host": host or f"127.0.0.1:{server.server_port}"})
            answer = connection.getresponse()
            content = answer.read().decode()
            connection.close()
            return answer, content

        yield ask
        server.shutdown()
        thread.join()


def test_all_runs_are_listed_newest_first_with_their_states(ask: Ask, runs: Path) -> None:
    _, html = ask("/")
    page = Page(html)
    links = [link.attributes["href"] for link in page.find("a")]
    assert links == [f"/mine/2026-01-0{day}_00-00-00/report.html" for day in (2, 1)]
    assert [mark.text for mark in page.find(css_class="state")] == ["finished", "interrupted"]
    assert "39.75" in page.text
    with locked(runs / "mine" / "2026-01-01_00-00-00"):
        _, html = ask("/")
    assert [mark.text for mark in Page(html).find(css_class="state")] == ["finished", "running"]
    answer, html = ask(links[0] or "")
    assert answer.status == 200
    assert "BLEU 39.75 on test" in html


def test_a_run_in_the_list_has_its_settings_and_its_failure(ask: Ask, runs: Path) -> None:
    """Also the jobs of a grid that all failed."""
    grid, words = runs / "grid" / "2026-01-03_00-00-00", ["name=grid", "model='a b'", f"match_to=runs/{'x' * 40}/0_rnn"]
    for number, dropout in enumerate(("0.1", "0.3")):
        (grid / f"{number}_job" / ".hydra").mkdir(parents=True)
        overrides = json.dumps([*words, f"model.dropout={dropout}"] if number else words)
        (grid / f"{number}_job" / ".hydra" / "overrides.yaml").write_text(overrides)
        (grid / f"{number}_job" / "failure.txt").write_text("a.en does not exist.\n")
    page = Page(ask("/")[1])
    rows = [" ".join(row.text.split()) for row in page.find("tr")]
    (first,), (second,) = ([row for row in rows if f"{number}_job" in row] for number in range(2))
    assert first.count("a.en does not exist.") == second.count("a.en does not exist.") == 1
    assert "model a b match_to runs/xxxxxxx…" in second
    assert "x/0_rnn model.dropout 0.3" in second


def test_a_folder_without_runs(tmp_path: Path, ask: Ask, runs: Path) -> None:
    for run in (runs / "mine").iterdir():
        run.rename(tmp_path / run.name)
    assert "There are no runs yet" in Page(ask("/")[1]).text
    with pytest.raises(HeedError, match="There is no folder"):
        make_server(tmp_path / "none", 0)
    with make_server(tmp_path, 0) as server, pytest.raises(HeedError, match=r"Port \d+ cannot be used"):
        make_server(tmp_path, server.server_port)
    with pytest.raises(HeedError, match="Port 99999 cannot be used"):
        make_server(tmp_path, 99999)


def test_a_browser_that_hangs_up_leaves_no_traceback(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = make_server(runs, 0)
    server.daemon_threads = False  # server_close waits for them
    with server, socket.create_connection(("127.0.0.1", server.server_port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets the connection
        client.sendall(b"GET / HTTP/1.1\r\n")
        server.handle_request()
    assert capsys.readouterr().err == ""


def test_a_page_is_new_after_a_validation_and_when_the_run_ends(ask: Ask, runs: Path) -> None:
    run, path = runs / "mine" / "2026-01-01_00-00-00", "/mine/2026-01-01_00-00-00/report.html"

    def version(path: str) -> str | None:
        answer, content = ask(path, method="HEAD")
        assert (answer.status, content) == (200, "")
        return answer.headers["ETag"]

    first, first_list = version(path), version("/")
    assert first == version(path) == ask(path)[0].headers["ETag"]
    with (run / "metrics.csv").open("a") as file:  # a training step is no reason to load the page again
        file.write("61,0,0.001,,2,2,,,,\n")
    assert version(path) == first
    assert version("/") != first_list
    with (run / "samples.jsonl").open("a") as file:
        file.write("")
    (run / "samples.jsonl").touch()
    second = version(path)
    assert second != first
    (run / "results.json").write_text(results())
    assert version(path) not in (first, second)


@pytest.mark.parametrize("path", [
    "/../config.yaml", "/../report.html", "/%2e%2e/report.html", "/mine/../../report.html", "/..%2freport.html",
    "/mine/2026-01-01_00-00-00/config.yaml", "/mine/2026-01-01_00-00-00/", "/mine/report.html", "/nothing/report.html",
    "/report.html", "//etc/passwd", "/%00/report.html", "/link/report.html", "/mine/2026-01-01_00-00-00/%ff",
])  # fmt: skip
def test_nothing_but_pages_of_runs_in_the_folder_is_sent(path: str, ask: Ask, runs: Path) -> None:
    (runs / "link").symlink_to(runs.parent)
    answer, content = ask(path)
    assert answer.status == 404
    assert "seed" not in content


@pytest.mark.parametrize("host", ["example.org", "example.org:5050", "127.0.0.1.example.org", "10.0.0.1"])
def test_other_names_of_this_machine_are_refused(host: str, ask: Ask) -> None:
    for path in ("/", "/mine/2026-01-01_00-00-00/report.html"):
        answer, content = ask(path, host=host)
        assert answer.status == 421
        assert "2026" not in content
    assert ask("/", host="localhost:5050")[0].status == 200


def test_only_reading_is_possible(ask: Ask) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask("/", method=method)[0].status == 501
