"""The page of the server in a browser: mouse, keyboard and touch, on a desktop and on a phone."""

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

import heed
from heed.inference.translator import Translator
from heed.interventions import force, force_row
from heed.interventions.forcing import named_words
from heed.serve.application import create_app
from heed.serve.models import ServedModel
from heed.serve.settings import ServeSettings
from tests.conftest import RNN
from tests.exchange.models import transformer, write_run
from tests.report.chromium import Browser, needs_chromium, start_browser

pytestmark = [pytest.mark.browser, needs_chromium]

DESKTOP, PHONE = 1280, 390
TEXT = "the farmer saw the dog"
WORDS = ".output .w"
Serve = Callable[..., "Server"]
HOSTILE = "<img src=x onerror=alert(1)> & the dog"


class Server:
    """A server in a thread. ``failure`` is a status with which it answers instead of translating."""

    def __init__(self, app: FastAPI) -> None:
        self.failure: int | None = None
        self.translations = 0
        app.middleware("http")(self._answer)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()

    async def _answer(self, request: Request, call_next) -> Response:  # type: ignore[no-untyped-def]
        self.translations += request.url.path == "/translate"
        if self.failure == 502 and request.method == "POST":
            return Response("<h1>Bad Gateway</h1>", 502, media_type="text/html")  # of a proxy
        if self.failure and request.method == "POST":
            return JSONResponse({"error": "Refused."}, status_code=self.failure, headers={"Retry-After": "1"})
        response: Response = await call_next(request)
        return response


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[ServedModel]:
    """A transformer and an RNN with random weights."""
    root = tmp_path_factory.mktemp("page")
    runs = {"transformer": write_run(root / "transformer", transformer(), seed=6), "rnn": write_run(root / "rnn", RNN)}
    return [ServedModel(name, heed.load(run, device="cpu")) for name, run in runs.items()]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(models, **settings)`` returns a server."""
    with ExitStack() as stack:

        def start(models: list[ServedModel], **settings: Any) -> Server:
            started = Server(create_app(models, ServeSettings(**settings)))
            stack.callback(started.stop)
            return started

        yield start


@pytest.fixture
def server(models: list[ServedModel], serve: Serve) -> Server:
    return serve(models, max_chars=300)


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A browser; after the test, pages must not have thrown exceptions."""
    chromium = start_browser()
    chromium.problems.clear()
    yield chromium
    assert [problem for problem in chromium.problems if "Failed to load resource" not in problem] == []


def show(browser: Browser, server: Server, *, tgt: str = "de", **window: Any) -> None:
    """Open the page and wait until it knows the languages."""
    browser.open(server.url, **{"width": DESKTOP, **window})
    browser.wait(f"document.querySelector('#target').value === {tgt!r}")


def write(browser: Browser, text: str = TEXT) -> None:
    browser.run("document.querySelector('#text').focus()")
    browser.type(text)


def translate(browser: Browser, text: str = TEXT) -> None:
    """Type a text and wait until its attention is shown."""
    write(browser, text)
    browser.wait(f"document.querySelector({WORDS!r}) && document.querySelector('.system .stage')")


def shown(browser: Browser) -> str:
    return str(browser.run("document.querySelector('.output').textContent"))


def heats(browser: Browser, selector: str) -> list[float]:
    found = browser.run(f"[...document.querySelectorAll({selector!r})].map(e => parseFloat(e.style.cssText.slice(8)))")
    return [float(value or 0) for value in found]


def test_the_translation_appears_and_a_word_shows_its_attention(
    browser: Browser, server: Server, models: list[ServedModel]
) -> None:
    show(browser, server)
    assert browser.run("!document.querySelector('#empty').hidden && document.querySelector('#inside').hidden")
    translate(browser)
    assert shown(browser) == models[0].translator.translate(TEXT)[0]
    assert server.translations == 1  # typing is one request
    assert browser.run("document.querySelector('#spoken').textContent") == shown(browser)

    browser.point(WORDS, 1)
    browser.wait("document.querySelector('.status').textContent.includes('attends to')")
    browser.wait("document.querySelectorAll('#backdrop mark').length")
    assert browser.run("document.querySelector('#backdrop').textContent").startswith(TEXT)
    painted = heats(browser, "#backdrop mark")
    assert len(painted) == len(TEXT.split())
    assert len(set(painted)) > 1
    assert browser.run("document.querySelectorAll('.output .w.chosen').length") == 1
    browser.point("h1")
    browser.wait("!document.querySelector('.status').textContent")

    browser.click(WORDS, 0)
    browser.point("h1")
    assert browser.run("document.querySelectorAll('.word[aria-pressed=true]').length") > 0  # pinned
    title = "[...document.querySelectorAll('.below h3')].at(-1).textContent"
    first = browser.run(title)
    browser.click(".heads label", 3)
    browser.wait(f"{title} !== {first!r}")
    browser.click("#kinds label", 1)
    browser.wait("document.querySelector('#explain').textContent.startsWith('The source, twice')")


def test_models_stand_side_by_side(browser: Browser, server: Server, models: list[ServedModel]) -> None:
    browser.open(server.url, width=DESKTOP)
    browser.wait("document.querySelectorAll('#models label').length === 2")
    translate(browser)
    browser.click("#models label", 1)
    browser.wait("document.querySelectorAll('.system').length === 2")
    texts = browser.run("[...document.querySelectorAll('.output')].map(e => e.textContent)")
    assert texts == [model.translator.translate(TEXT)[0] for model in models]
    names = browser.run("[...document.querySelectorAll('.system h2')].map(e => e.textContent)")
    assert names == ["transformer", "rnn"]
    browser.click("#models label", 0)
    browser.wait("document.querySelectorAll('.system').length === 1")
    assert browser.run("document.querySelector('.system').getAttribute('aria-label')") == "rnn"
    browser.click("#models label", 1)  # one model stays
    assert browser.run("document.querySelectorAll('#models :checked').length") == 1


def test_the_keyboard_reaches_everything(browser: Browser, server: Server) -> None:
    show(browser, server)
    translate(browser)
    for _ in range(4):
        browser.press("Tab")
        if browser.run("document.activeElement.matches('.w')"):
            break
    assert browser.run("document.activeElement === document.querySelector('.output .w')")
    browser.wait("document.querySelector('.status').textContent.startsWith('“')")
    browser.press("End")
    assert browser.run("document.activeElement === [...document.querySelectorAll('.output .w')].at(-1)")
    browser.press("Home")
    browser.press("Enter")
    assert browser.run("document.querySelectorAll('.word[aria-pressed=true]').length") > 0
    browser.press("Escape")
    assert browser.run("document.querySelectorAll('.word[aria-pressed=true]').length") == 0
    for _ in ("Clear", "Terms", "text"):
        browser.press("Tab", shift=True)
    assert browser.run("document.activeElement.id") == "text"


def choices(browser: Browser, translator: Translator, before: str) -> list[str]:
    """Wait for the candidates of a place, check them against the translator's, and return their words."""
    browser.wait("document.querySelectorAll('#candidates button').length")
    found = browser.run("[...document.querySelectorAll('#candidates button')].map(e => e.innerText.split('\\n'))")
    expected = dict(translator.next_words(TEXT, before, n=8))
    shown = {word: p.split(" %")[0] for word, *_, p in found}
    for word, log_prob in [*expected.items()][:7]:
        p = 100 * math.exp(log_prob)
        assert shown[word or "(end)"] == (f"{p:.0f}" if p >= 9.5 else f"{p:.1f}" if p >= 0.1 else "< 0.1")
    return [*shown]


@pytest.mark.parametrize("way", ["mouse", "keys", "touch"])
def test_a_reader_chooses_another_word(browser: Browser, server: Server, models: list[ServedModel], way: str) -> None:
    translator = models[0].translator
    show(browser, server, width=PHONE if way == "touch" else DESKTOP, touch=way == "touch", dark=way == "keys")
    translate(browser)
    plain = shown(browser)
    first, second = plain.split()[:2]
    if way == "keys":
        browser.run("document.querySelectorAll('.output .w')[1].focus()")
        browser.press("Enter")
    else:
        (browser.tap if way == "touch" else browser.click)(WORDS, 1)
    words = choices(browser, translator, first)
    assert browser.run("document.querySelectorAll('.word[aria-pressed=true]').length") > 0
    if way == "keys":
        browser.wait("document.activeElement.matches('.candidate')")
        browser.press("Escape")
        assert browser.run("document.querySelector('#choices').hidden")
        assert browser.run("document.activeElement === document.querySelectorAll('.output .w')[1]")
        browser.press("Enter")
        browser.wait("document.activeElement.matches('.candidate')")
        browser.press("Home")
    number = next(place for place, word in enumerate(words) if word not in (second, "(end)"))
    if way == "keys":
        for _ in range(number - words[:number].count("(end)")):
            browser.press("ArrowDown")
        browser.press("Enter")
    else:
        press = browser.tap if way == "touch" else browser.click
        press("h1")
        assert browser.run("document.querySelector('#choices').hidden")
        press(WORDS, 1)
        assert choices(browser, translator, first) == words
        assert browser.run("document.querySelectorAll('.word[aria-pressed=true]').length") > 0
        press("#candidates button", number)
    browser.wait(f"document.querySelector('.output').textContent !== {plain!r}")
    prefix = f"{first} {words[number]} "
    assert shown(browser) == translator.translate(TEXT, prefix=prefix)[0]
    assert browser.run("document.activeElement.textContent") == words[number]
    assert browser.run("document.querySelector('#spoken').textContent") == shown(browser)
    browser.wait(f"document.querySelector('.system .target').textContent === {shown(browser)!r}")
    assert browser.run("document.documentElement.scrollWidth") <= (PHONE if way == "touch" else DESKTOP)
    undo = "[...document.querySelectorAll('.result .foot button')].find(e => e.textContent === 'Undo my words')"
    browser.run(f"{undo}.click()")
    browser.wait(f"document.querySelector('.output').textContent === {plain!r} && !{undo}")


def test_words_show_how_sure_the_model_is(browser: Browser, server: Server, models: list[ServedModel]) -> None:
    show(browser, server)
    translate(browser)
    (words,) = models[0].translator.score_words(TEXT, shown(browser))
    browser.wait(f"document.querySelectorAll('.w[data-p]').length === {len(words)}")
    doubts = browser.run("[...document.querySelectorAll('.w')].map(e => e.style.getPropertyValue('--doubt'))")
    assert doubts == [f"{100 * (1 - math.exp(log_prob)):.0f}%" for _, log_prob in words]
    label = "getComputedStyle(document.querySelector('.w'), '::after').content"
    assert browser.run(label) == "none"
    browser.point(WORDS)
    assert "%" in browser.run(label)
    browser.click(".marks input")
    assert browser.run("document.querySelectorAll('.w[data-p]').length") == 0
    browser.click(".marks input")
    browser.click(".map .cell", 2)  # with forced attention, the numbers are not those of the translation
    browser.wait(f"{CHANGES} === 1")
    assert browser.run("document.querySelectorAll('.w[data-p]').length") == 0
    browser.click(WORDS)
    assert browser.run("document.querySelector('#choices').hidden")


def test_terms_are_in_the_translation_and_wrong_ones_are_named(
    browser: Browser, server: Server, models: list[ServedModel]
) -> None:
    show(browser, server)
    translate(browser)
    browser.click("details.terms summary")
    browser.run("document.querySelector('#terms').focus()")
    browser.type("dog = house | a house\nfarmer = ")
    browser.wait("document.querySelector('#message-text').textContent.startsWith('Line 2 of the terms must be like')")
    browser.type("man")
    browser.wait("document.querySelector('#message').hidden && !document.querySelector('.stale')")
    terms = {"dog": ["house", "a house"], "farmer": "man"}
    assert shown(browser) == models[0].translator.translate(TEXT, terms=terms)[0]
    assert "Terms (2)" in browser.run("document.querySelector('.terms summary').textContent")
    browser.wait(f"document.querySelector('.system .target').textContent === {shown(browser)!r}")
    browser.type("\na = b" + "".join(f"\n{number} = b" for number in range(101)))
    browser.wait("document.querySelector('#message-text').textContent.includes('at most 100 items, not 104')")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_axe_finds_no_serious_barrier(browser: Browser, server: Server, width: int, theme: str) -> None:
    axe = files(pytest.importorskip("axe_core_python")).joinpath("axe.min.js").read_text(encoding="utf-8")
    show(browser, server, width=width, dark=theme == "dark")
    translate(browser)
    browser.run("document.querySelector('details.terms').open = true")
    browser.click(WORDS, 1)
    browser.wait("document.querySelectorAll('#candidates button').length")
    browser.run(f"{axe}; 0")
    found = browser.run("axe.run().then(({ violations }) => violations.map(v => [v.impact, v.id, v.nodes[0].html]))")
    assert [one for one in found if one[0] in ("serious", "critical")] == []


def test_touch_on_a_phone(browser: Browser, server: Server) -> None:
    show(browser, server, width=PHONE, height=844, touch=True)
    translate(browser)
    browser.tap(WORDS, 0)
    browser.wait("document.querySelector('.word[aria-pressed=true]')")
    browser.wait("document.querySelectorAll('#backdrop mark').length")
    assert browser.run("document.documentElement.scrollWidth") <= PHONE
    small = "[...document.querySelectorAll('button:not(.word), select, .models label, .kinds label')]"
    assert browser.run(f"Math.min(...{small}.filter(e => e.checkVisibility()).map(e => e.offsetHeight))") >= 30
    browser.tap("#clear")
    browser.wait("document.querySelector('#inside').hidden && !document.querySelector('#text').value")


def forced(models: list[ServedModel], query: int, key: int, layer: int | None = None) -> str:
    """Return the translation by the first model with a piece of its translation forced, with the rest of its word."""
    translator = models[0].translator
    (before,) = translator.attend(TEXT)
    words = [named_words(before.target, before.tgt_pieces), named_words(TEXT, before.src_pieces)]
    rows, keys = (
        next(pieces for pieces in own.values() if at in pieces) for own, at in zip(words, (query, key), strict=True)
    )
    return force(translator, TEXT, force_row("cross", rows, keys, layer=layer))[1].target


CHANGES = "document.querySelectorAll('.changes button').length"


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_a_row_is_forced_by_mouse_and_keyboard(
    browser: Browser, server: Server, models: list[ServedModel], width: int
) -> None:
    show(browser, server, width=width, dark=width == PHONE)
    translate(browser)
    plain = shown(browser)
    cells = browser.run("document.querySelectorAll('.keys .word').length")
    ways = {
        "clicks": lambda: (browser.click(".queries .word", 0), browser.click(".keys .word", 2)),
        "drag": lambda: browser.drag((".queries .word", 0), (".keys .word", 2)),
        "cell": lambda: browser.click(".map .cell", 2),
        "keys": lambda: [browser.run("document.querySelector('.queries .word').focus()"), *map(browser.press, keys)],
    }
    upright = browser.run("Boolean(document.querySelector('.upright'))")
    keys = [
        "Enter", "ArrowLeft" if upright else "ArrowUp", "Home", *["ArrowDown" if upright else "ArrowRight"] * 2,
        "Enter",
    ]  # fmt: skip
    for way, act in ways.items():
        act()
        browser.wait(f"{CHANGES} === 1")
        assert shown(browser) == forced(models, 0, 2), way
        assert browser.run("document.querySelector('.system .target').textContent") == shown(browser)
        assert plain in browser.run("document.querySelector('.before').textContent")
        assert browser.run("document.querySelector('.is-forced').textContent") == "with forced attention"
        assert browser.run(f"view.systems[0].weights.slice(0, {cells})[2]") > 0
        assert browser.run("document.querySelector('.queries .word').classList.contains('forced')")
        assert browser.run("document.documentElement.scrollWidth") <= width
        if way == "keys":
            assert browser.run("document.activeElement === document.querySelectorAll('.keys .word')[2]")
            browser.press("Enter")  # the same once more takes it back
        else:
            browser.click(".changes button")
        browser.wait(f"{CHANGES} === 0")
        assert shown(browser) == plain
        browser.press("Escape")
    browser.click(".scope label", 1)
    layer = int(browser.run("document.querySelectorAll('.scope label')[1].textContent").split()[-1]) - 1
    browser.click(".map .cell", 2)
    browser.wait(f"{CHANGES} === 1")
    assert shown(browser) == forced(models, 0, 2, layer)
    write(browser, " a")
    browser.wait(f"{CHANGES} === 0 && document.querySelector('.system .keys').textContent.includes('a')")


def test_a_row_is_forced_by_touch(browser: Browser, server: Server, models: list[ServedModel]) -> None:
    show(browser, server, width=PHONE, height=844, touch=True)
    translate(browser)
    browser.tap(".queries .word", 0)
    browser.tap(".keys .word", 2)
    browser.wait(f"{CHANGES} === 1")
    assert shown(browser) == forced(models, 0, 2)
    assert browser.run("document.querySelector('.changes button').offsetHeight") >= 30
    browser.tap(".changes button")
    browser.wait(f"{CHANGES} === 0")


def test_a_server_that_fails_to_force_leaves_all_as_it_was(
    browser: Browser, server: Server, models: list[ServedModel]
) -> None:
    show(browser, server)
    translate(browser)
    plain = shown(browser)
    server.failure = 429
    browser.click(".map .cell", 2)
    browser.wait("document.querySelector('#message-text').textContent === 'The server is busy.'")
    assert (shown(browser), browser.run(CHANGES)) == (plain, 0)
    server.failure = None
    browser.wait(f"{CHANGES} === 1 && document.querySelector('#message').hidden")  # it is asked again
    assert shown(browser) == forced(models, 0, 2)
    browser.click("#kinds label", 2)
    browser.click(".map .cell", 1)  # the first query, and a key that comes later
    browser.wait("document.querySelector('.status').textContent.includes('comes later')")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_several_sentences_and_lines_keep_their_order(browser: Browser, server: Server, width: int) -> None:
    show(browser, server, width=width)
    translate(browser, "The dog runs. A cat sleeps.\n\nthe house")
    browser.wait("document.querySelectorAll('.sentence').length === 3")
    assert shown(browser).count("\n\n") == 1
    assert browser.run("document.querySelector('.sentence.active').dataset.sentence") == "2"  # that of the caret
    browser.click(".sentence:first-child .w")
    browser.wait("document.querySelector('.system .words').textContent.includes('dog')")
    assert browser.run("document.querySelector('.sentence.active').dataset.sentence") == "0"


def test_text_is_never_markup(browser: Browser, server: Server) -> None:
    show(browser, server)
    translate(browser, HOSTILE)
    assert browser.run("document.querySelectorAll('main img').length") == 0
    assert browser.run("document.querySelector('#backdrop').textContent").startswith(HOSTILE)


def test_a_text_that_is_too_long_is_not_sent(browser: Browser, server: Server) -> None:
    show(browser, server)
    write(browser, "dog " * 80)
    browser.wait("document.querySelector('#message-text').textContent.includes('too long by 20 characters')")
    assert browser.run("document.querySelector('#count').classList.contains('over')")
    assert server.translations == 0


def test_a_busy_server_is_asked_again(browser: Browser, server: Server) -> None:
    show(browser, server)
    server.failure = 429
    write(browser)
    browser.wait("document.querySelector('#message-text').textContent === 'The server is busy.'")
    server.failure = None
    browser.wait(f"document.querySelector({WORDS!r}) && document.querySelector('#message').hidden")


def test_a_failed_proxy_is_named_and_asked_again(browser: Browser, server: Server) -> None:
    show(browser, server, width=PHONE, touch=True)
    translate(browser)
    server.failure = 502
    browser.type(" and the cat")
    browser.wait("document.querySelector('#message-text').textContent.includes('status 502')")
    colour = "getComputedStyle(document.querySelector('.output .w')).color"
    assert browser.run(f"{colour} !== getComputedStyle(document.body).color")  # it translates another text
    assert browser.run("document.documentElement.scrollWidth") <= PHONE
    server.failure = None
    browser.wait("document.querySelector('#message').hidden && !document.querySelector('.stale')")


def test_a_sentence_too_long_for_attention_is_translated(
    browser: Browser, models: list[ServedModel], serve: Serve
) -> None:
    show(browser, serve(models))
    write(browser, "dog " * 201)
    browser.wait("!document.querySelector('#note').hidden")
    assert "201 subwords" in browser.run("document.querySelector('#note').textContent")
    assert browser.run("document.querySelector('.output').textContent.trim() !== ''")
    assert browser.run("document.querySelector('#kinds').hidden && document.querySelector('#help').hidden")


def test_a_long_text_and_its_translation_scroll(browser: Browser, models: list[ServedModel], serve: Serve) -> None:
    show(browser, serve(models))
    translate(browser, "the dog runs\n\n" * 30)
    box = "document.querySelector('.output')"
    assert browser.run(f"{box}.offsetHeight <= innerHeight * .6 && {box}.scrollHeight > {box}.offsetHeight")
    place = f"document.querySelector('.sentence.active').offsetTop - {box}.scrollTop"
    assert browser.run(f"0 <= {place} && {place} < {box}.clientHeight")  # the last sentence, that of the caret


def test_more_sentences_than_texts_of_a_request(browser: Browser, models: list[ServedModel], serve: Serve) -> None:
    server = serve(models, max_sentences=2)
    show(browser, server)
    translate(browser, "The dog runs. A cat sleeps. The house. A dog. A cat.")
    browser.wait("document.querySelectorAll('.sentence').length === 5")
    assert server.translations == 3
    assert browser.run("document.querySelector('#message').hidden")


def test_codes_with_an_underscore(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    languages = {"src_lang": "en_GB", "tgt_lang": "pt_BR"}
    run = write_run(tmp_path / "run", transformer(), seed=6, languages=languages)
    show(browser, serve([ServedModel("model", heed.load(run, device="cpu"))]), tgt="pt_BR")
    translate(browser)
    assert browser.run("document.querySelector('#text').closest('[lang]').lang") == "en-GB"
    assert browser.run("document.querySelector('.output').lang") == "pt-BR"


def test_right_to_left(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    lines = ["הכלב רץ בבית", "החתול ישן", "האיכר ראה את הכלב ואת החתול", "הבית גדול מאוד"]
    run = write_run(
        tmp_path / "run", transformer(), seed=4, lines=lines, languages={"src_lang": "he", "tgt_lang": "yi"}
    )
    show(browser, serve([ServedModel("model", heed.load(run, device="cpu"))]), tgt="yi")
    translate(browser, "הכלב רץ בבית.")
    direction = "getComputedStyle(document.querySelector({!r})).direction"
    assert [browser.run(direction.format(each)) for each in ("#text", "#backdrop", ".output")] == ["rtl"] * 3
    places = "[...document.querySelectorAll('.keys .word')].map(e => e.getBoundingClientRect().left)"
    assert browser.run(f"!document.querySelector('.upright') && {places}.every((x, i, all) => !i || x < all[i - 1])")
    browser.run("document.querySelector('.keys .word').focus()")
    browser.press("ArrowLeft")
    assert browser.run("document.activeElement === document.querySelectorAll('.keys .word')[1]")


def test_a_key_is_asked_for(browser: Browser, models: list[ServedModel], serve: Serve) -> None:
    show(browser, serve(models, api_keys=frozenset({"secret"})))
    write(browser)
    browser.wait("document.querySelector('#message-text').textContent.includes('needs an API key')")
    browser.run("document.querySelector('#key').focus()")
    browser.type("secret")
    browser.press("Enter")
    browser.wait(f"document.querySelector({WORDS!r}) && document.querySelector('#message').hidden")


def test_a_stopped_server_is_named(browser: Browser, models: list[ServedModel]) -> None:
    server = Server(create_app(models))
    show(browser, server)
    server.stop()
    write(browser)
    browser.wait("document.querySelector('#message-text').textContent.startsWith('The server does not answer')")
    assert browser.run("document.querySelector('#text').value") == TEXT
