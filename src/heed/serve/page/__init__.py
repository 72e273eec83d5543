"""``GET /``: a page to try the models, in one self-contained file."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse

from heed.plot.attention_map import TITLES
from heed.report.pages import render_template


def page() -> HTMLResponse:
    """Return the page. Its script requests the languages, models and limits from the server."""
    return HTMLResponse(_html(), headers={"Content-Security-Policy": "frame-ancestors 'none'"})


def api_page(openapi: Mapping[str, Any]) -> HTMLResponse:
    """Return a page that describes the API."""
    return HTMLResponse(render_template("api.html.j2", folder=Path(__file__).parent, api=openapi))


@cache
def _html() -> str:
    titles = {kind: title for kind, (title, _) in TITLES.items()}
    return render_template("page.html.j2", folder=Path(__file__).parent, titles=titles)
