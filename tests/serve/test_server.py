"""``heed serve`` as a process: clients, signals, load, memory."""

import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from libretranslatepy import LibreTranslateAPI

import heed
from tests import forkserver
from tests.exchange.models import LINES
from tests.serve.processes import Server, serving
from tests.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(run_folder: Path) -> Iterator[Server]:
    with serving(run_folder) as running:
        yield running


@pytest.fixture(scope="module")
def expected(run_folder: Path) -> dict[str, str]:
    """The translations of some sentences, by the translator."""
    sentences = [*LINES, *(f"{first} {second}" for first in LINES for second in LINES)]
    return dict(zip(sentences, heed.load(run_folder, device="cpu").translate(sentences), strict=True))


def post(server: Server, **body: object) -> dict[str, object]:
    headers = {"Content-Type": "application/json"}
    request = Request(f"{server.url}/translate", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=60) as response:
        answer: dict[str, object] = json.load(response)
        return answer


def translate(server: Server, text: str) -> object:
    return post(server, q=text, source="en", target="de")["translatedText"]


def test_libretranslatepy_talks_to_the_server(server: Server, expected: dict[str, str]) -> None:
    client = LibreTranslateAPI(server.url)
    assert client.translate(LINES[0], "en", "de") == expected[LINES[0]]
    assert client.translate(LINES[0], "auto", "de") == expected[LINES[0]]
    assert client.detect(LINES[0]) == [{"confidence": 100.0, "language": "en"}]
    assert [each["code"] for each in client.languages()] == ["en", "de"]
    with pytest.raises(HTTPError) as refused:
        client.translate(LINES[0], "en", "fr")
    assert json.load(refused.value)["error"].startswith("fr is not supported")


def test_libretranslatepy_sends_a_key_to_a_server_behind_a_path(run_folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# of the newsroom\nnews-1234\n\n")
    with serving(run_folder, "--api-keys", keys, "--root-path", "/mt") as running:
        with urlopen(f"{running.url}/spec") as spec, urlopen(f"{running.url}/openapi.json") as openapi:
            assert json.load(openapi) == {**json.load(spec), "servers": [{"url": "/mt"}]}
        with pytest.raises(HTTPError, match="403"):
            LibreTranslateAPI(running.url).translate(LINES[0], "en", "de")
        assert LibreTranslateAPI(running.url, api_key="news-1234").translate(LINES[0], "en", "de")


def test_no_answer_is_lost_or_swapped_under_load(server: Server, expected: dict[str, str]) -> None:
    """64 clients; the whole load test is scripts/serve_load.py."""
    sentences = list(expected)

    def ask(number: int) -> list[tuple[str, object]]:
        own = [sentences[(number * 7 + step) % len(sentences)] for step in range(5)]
        return [(sentence, translate(server, sentence)) for sentence in own]

    with ThreadPoolExecutor(64) as clients:
        answers = [answer for found in clients.map(ask, range(64)) for answer in found]
    assert len(answers) == 320
    assert all(translation == expected[sentence] for sentence, translation in answers)
    with urlopen(f"{server.url}/metrics") as response:
        batches = response.read().decode()
    alone, total = (
        float(batches.partition(f'heed_batch_sentences_{name}model="run"}} ')[2].split()[0])
        for name in ('bucket{le="1.0",', "count{")
    )
    assert alone < total  # requests shared batches


def test_clients_that_hang_up_do_no_harm(server: Server, expected: dict[str, str]) -> None:
    body = json.dumps({"q": LINES * 50, "source": "en", "target": "de"}).encode()
    head = (
        "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    for sent in (b"", b"POST /tr", head.encode(), head.encode() + body[:100], head.encode() + body, b"\0\xff\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(sent)
    assert translate(server, LINES[0]) == expected[LINES[0]]
    wait_for(lambda: 'heed_waiting_sentences{model="run"} 0.0' in metrics(server))


def test_a_client_that_hangs_up_or_does_not_send_http_is_no_failure(run_folder: Path, tmp_path: Path) -> None:
    head = "POST {} HTTP/1.1\r\nHost: localhost:1\r\nContent-Type: application/json\r\n"
    with serving(run_folder, log=tmp_path / "log") as running:
        address = ("127.0.0.1", running.port)
        with socket.create_connection(address) as connection:
            connection.sendall(head.format("/translate").encode() + b"Content-Length: 100\r\n\r\n{")
            time.sleep(0.5)
        wait_for(lambda: 'path="/translate",status="400"' in metrics(running))
        for path in ("/translate", "/nowhere"):  # the second is answered before the body
            with socket.create_connection(address, timeout=30) as connection:
                connection.sendall(head.format(path).encode() + b"Transfer-Encoding: chunked\r\n\r\n")
                time.sleep(0.5)
                connection.sendall(b"ZZ\r\n")
                assert connection.recv(2**16).startswith(b"HTTP/1.1 40")
                while connection.recv(2**16):
                    pass
        with socket.create_connection(address, timeout=30) as connection:
            connection.sendall(b"GET /languages HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            assert connection.recv(2**16).startswith(b"HTTP/1.1 421")
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log
    assert "failed" not in log


def metrics(server: Server) -> str:
    with urlopen(f"{server.url}/metrics") as response:
        text: str = response.read().decode()
        return text


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)])
def test_a_signal_finishes_what_was_accepted(run_folder: Path, number: signal.Signals) -> None:
    texts = [" ".join(LINES)] * 60
    answers: list[dict[str, object]] = []
    with serving(run_folder, "--batch-sentences", 4) as running:
        request = {"q": texts, "source": "en", "target": "de"}
        thread = threading.Thread(target=lambda: answers.append(post(running, **request)))
        thread.start()
        wait_for(lambda: 'heed_waiting_sentences{model="run"} 60.0' in metrics(running))
        running.process.send_signal(number)
        thread.join(60)
        assert running.process.wait(30) == {signal.SIGTERM: 0, signal.SIGINT: 130}[number]
    (answer,) = answers
    assert answer["translatedText"] == heed.load(run_folder, device="cpu").translate(texts)


@pytest.mark.full
def test_memory_stays_flat(server: Server) -> None:
    def load(rounds: int) -> None:
        with ThreadPoolExecutor(8) as clients:
            list(clients.map(lambda number: translate(server, LINES[number % len(LINES)]), range(rounds)))

    load(200)
    before = server.resident_memory()
    load(600)
    assert server.resident_memory() - before < 8e6


# ---- the command


def test_ctranslate2_computes_translations(run_folder: Path) -> None:
    greedy = heed.load(run_folder, device="cpu").translate(LINES, beam=1)
    with serving(run_folder, "--engine", "ctranslate2") as running:
        assert (run_folder / "model" / "ctranslate2").is_dir()
        assert post(running, q=LINES, source="en", target="de", beam=1)["translatedText"] == greedy


def test_the_port_is_listened_to_on_this_machine_only(server: Server) -> None:
    assert server.url.startswith("http://127.0.0.1:")


def test_wrong_options_get_a_sentence(run_folder: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# none\n")
    serve = ("serve", "--engine", "heed")
    assert "There is no folder" in refused(*serve, tmp_path / "none", "--port", 0)
    assert "has no key" in refused(*serve, run_folder, "--api-keys", keys)
    assert "No such file or directory" in refused(*serve, run_folder, "--api-keys", tmp_path / "none")
    assert "1 models and 2 names" in refused(*serve, run_folder, "--name", "a", "--name", "b")
    assert "same name" in refused(*serve, run_folder, run_folder, "--name", "a", "--name", "a", "--port", 0)
    for path in ("mt", "/mt/", "/"):
        assert f"--root-path {path} must be a path such as /mt" in refused(*serve, run_folder, "--root-path", path)
    assert "max_chars=0 must be" in refused(*serve, run_folder, "--max-chars", 0)
    assert "Choose another --host or --port" in refused(*serve, run_folder, "--port", 99999)
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        assert f"127.0.0.1:{port} cannot be used" in refused(*serve, run_folder, "--port", port)


@pytest.mark.parametrize(
    "package", ["fastapi", *(pytest.param(name, marks=pytest.mark.full) for name in ("uvicorn", "sentencex"))]
)
def test_a_missing_package_is_a_sentence(run_folder: Path, package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; from heed.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "serve", str(run_folder), "--port", "0"]
    done = forkserver.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert package in done.stderr
    assert "pip install -e '.[" in done.stderr
    assert "Traceback" not in done.stderr
