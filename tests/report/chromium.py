"""Measurements of pages in headless Chromium."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
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
FRAME = """<!doctype html><body><iframe src="page.html" style="border: 0; width: {width}px; height: 900px"></iframe>
<script>addEventListener("message", event => {{ document.body.textContent = event.data; }});</script></body>"""
"""A window of Chromium is 500 pixels wide or more; a frame has any width."""
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


def measure(html: str, folder: Path, *, width: int, script: str = MEASURE) -> dict[str, Any]:
    """Open a page in a frame of a width in pixels, and return its measurements, which a script posts to the parent.

    The policy of the page is removed, because it would stop the script.
    """
    page = folder / "page.html"
    page.write_text(POLICY.sub("", html).replace("</body>", script), encoding="utf-8")
    (folder / "frame.html").write_text(FRAME.format(width=width), encoding="utf-8")
    flags = ["headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
             "disable-component-update", "disable-sync", f"user-data-dir={folder / 'profile'}",
             "window-size=1300,1000", "hide-scrollbars", "virtual-time-budget=3000", "dump-dom"]  # fmt: skip
    command = ["chromium", *(f"--{flag}" for flag in flags), (folder / "frame.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    (measured,) = re.findall("<body>(.*?)</body>", dom, re.DOTALL)
    return dict(json.loads(unescape(measured)))
