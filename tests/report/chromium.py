"""Headless Chromium with a mouse, a keyboard and a touch screen, and measurements of pages.

Chromium is controlled through a pipe (https://chromedevtools.github.io/devtools-protocol/).
"""

import atexit
import json
import os
import re
import select
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

MISSING = shutil.which("chromium") is None
needs_chromium = pytest.mark.skipif(MISSING, reason="needs chromium to measure pages")

MEASURE = """
<script>
const errors = [];
addEventListener("error", event => errors.push(event.message));
setTimeout(() => {
  const elements = [...document.body.querySelectorAll("*")].filter(e =>
    !["SCRIPT", "STYLE", "title", "OPTION"].includes(e.tagName) && e.checkVisibility());
  const size = e => {
    const scale = e.getScreenCTM?.();  // of text in an SVG
    return parseFloat(getComputedStyle(e).fontSize) * (scale ? Math.hypot(scale.a, scale.b) : 1);
  };
  const texts = elements.filter(e => [...e.childNodes].some(node => node.nodeType === 3 && node.data.trim()));
  const canScroll = e => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  const scrolls = elements.filter(e => e.scrollWidth > e.clientWidth + 1 && canScroll(e));
  const between = (low, value, high) => low < value && value < high;
  const inside = (box, { x, y }, margin) => between(box.left + margin, x, box.right - margin)
    && between(box.top + margin, y, box.bottom - margin);
  const links = [...document.querySelectorAll(".links path")].map(path => {
    const matrix = path.getScreenCTM(), length = path.getTotalLength();
    const at = share => path.getPointAtLength(share * length).matrixTransform(matrix);
    const boxes = [...path.closest(".stage").querySelectorAll(".word")].map(word => word.getBoundingClientRect());
    return {
      ends: [at(0), at(1)].every(point => boxes.some(box => inside(box, point, -1))),
      crosses: [...Array(19).keys()].map(i => at((i + 1) / 20)).some(point => boxes.some(box => inside(box, point, 1))),
    };
  });
  parent.postMessage(JSON.stringify({
    errors, width: innerWidth, overflow: document.documentElement.scrollWidth - innerWidth,
    texts: texts.length, smallest: Math.min(...texts.map(size)),
    scrolls: scrolls.map(e => e.getAttribute("aria-label")),
    unfocusable: scrolls.filter(e => e.tabIndex < 0 || !e.getAttribute("aria-label")).map(e => e.className),
    without_hint: scrolls.filter(e => !e.querySelector(".hint")?.checkVisibility()).map(e => e.className),
    links: links.length, loose_links: links.filter(link => !link.ends).length,
    crossing_links: links.filter(link => link.crosses).length,
    pressed: [...new Set([...document.querySelectorAll("[aria-pressed]")].map(e => e.getAttribute("aria-pressed")))],
    upright: document.querySelectorAll(".upright").length,
  }), "*");
}, 400);
</script></body>"""
POSTED = """<script>
const posted = new Promise(done => addEventListener("message", event => done(event.data)));
</script>"""
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
FLAGS = ["headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-sync",
         "disable-component-update", "hide-scrollbars", "remote-debugging-pipe"]  # fmt: skip
TIMEOUT = 120.0
"""Seconds to wait for Chromium, or for a condition on a page."""
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "Home": 36, "End": 35, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
        "ArrowDown": 40}  # fmt: skip


class Browser:
    """A Chromium with one page."""

    def __init__(self, profile: Path) -> None:
        commands_out, self._commands = os.pipe()
        self._answers, answers_in = os.pipe()
        flags = " ".join(f"--{flag}" for flag in FLAGS)
        shell = f'exec chromium {flags} "--user-data-dir={profile}" about:blank 3<&{commands_out} 4>&{answers_in}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell], pass_fds=(commands_out, answers_in), stderr=subprocess.DEVNULL
        )
        os.close(commands_out)
        os.close(answers_in)
        self._number, self._buffer, self._session = 0, b"", ""
        self.problems: list[str] = []
        """Errors that pages wrote to the console."""
        (target,) = [each for each in self._call("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        self._session = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def close(self) -> None:
        """End Chromium."""
        os.close(self._commands)
        os.close(self._answers)
        self._process.terminate()
        self._process.wait()

    def open(self, url: str, *, width: int, height: int = 900, touch: bool = False, dark: bool = False) -> None:
        """Open an address in a window of this size in pixels."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2, mobile=touch)
        self._call("Emulation.setTouchEmulationEnabled", enabled=touch)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[theme])
        self._call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; of a promise, what it resolves to."""
        result = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + TIMEOUT
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never: {condition}"
            time.sleep(0.05)

    def point(self, selector: str, number: int = 0) -> None:
        """Move the mouse to an element: the one with this number among those with the selector."""
        x, y = self._middle(selector, number)
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str, number: int = 0) -> None:
        """Click on an element with the mouse."""
        x, y = self._middle(selector, number)
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, start: tuple[str, int], end: tuple[str, int]) -> None:
        """Drag an element onto another with the mouse; each is a selector and a number."""
        moves = [("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)]
        for kind, place in moves:
            x, y = self._middle(*place)
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def tap(self, selector: str, number: int = 0) -> None:
        """Touch an element."""
        x, y = self._middle(selector, number)
        self._call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self._call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key."""
        text = {"text": "\r"} if key == "Enter" else {}
        options = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
        self._call("Input.dispatchKeyEvent", type="keyDown", **options, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", **options)

    def type(self, text: str) -> None:
        """Type into the element with the focus."""
        self._call("Input.insertText", text=text)

    def _middle(self, selector: str, number: int) -> tuple[float, float]:
        box = self.run(
            f"(e => {{ e.scrollIntoView({{block: 'nearest'}}); const b = e.getBoundingClientRect();"
            f" return [b.x + b.width / 2, b.y + b.height / 2]; }})(document.querySelectorAll({selector!r})[{number}])"
        )
        return box[0], box[1]

    def _call(self, method: str, **params: Any) -> Any:
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": params, **session}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], TIMEOUT)
            assert ready, "Chromium does not answer"
            block = os.read(self._answers, 2**16)
            assert block, "Chromium has ended"
            self._buffer += block
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(event["params"]["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.problems.append(event["params"]["entry"]["text"])


@cache
def start_browser() -> Browser:
    """Return the Chromium of this test process."""
    profile = TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
    browser = Browser(Path(profile.name))
    atexit.register(profile.cleanup)
    atexit.register(browser.close)  # first
    return browser


def measure_readable(html: str, folder: Path, *, width: int, texts: int) -> dict[str, Any]:
    """Return the measurements of a page that must be readable at a width, with more than ``texts`` texts."""
    found = measure(html, folder, width=width)
    assert found["errors"] == []
    assert (found["width"], max(0, found["overflow"])) == (width, 0)
    assert found["texts"] > texts
    assert found["smallest"] >= 11
    assert found["unfocusable"] == found["without_hint"] == []
    assert found["loose_links"] == found["crossing_links"] == 0
    return found


def measure(html: str, folder: Path, *, width: int, script: str = MEASURE) -> dict[str, Any]:
    """Open a page in a window of a width in pixels, and return its measurements, which a script posts to the page.

    The policy of the page is removed, because it would stop the script.
    """
    page = folder / "page.html"
    page.write_text(POLICY.sub("", html).replace("</body>", POSTED + script), encoding="utf-8")
    browser = start_browser()
    browser.open(page.as_uri(), width=width)
    return dict(json.loads(browser.run("posted")))
