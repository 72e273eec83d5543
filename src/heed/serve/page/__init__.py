"""``GET /``: a page to try the models, in one self-contained file."""

from functools import cache
from pathlib import Path

from fastapi.responses import HTMLResponse

from heed.plot.attention_map import TITLES
from heed.report.pages import render_template


def page() -> HTMLResponse:
    """Return the page. Its script requests the languages, models and limits from the server."""
    return HTMLResponse(_html(), headers={"Content-Security-Policy": "frame-ancestors 'none'"})


@cache
def _html() -> str:
    titles = {kind: title for kind, (title, _) in TITLES.items()}
    return render_template("page.html.j2", folder=Path(__file__).parent, titles=titles)
