"""``GET /``: a page to try the models. It is one file, which loads nothing from elsewhere."""

from functools import cache
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from heed.plot.attention_map import TITLES
from heed.report.pages import render_page

POLICY = "frame-ancestors 'none'"


def page_router() -> APIRouter:
    """Return the router of the page."""
    router = APIRouter()

    @router.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(page_html(), headers={"Content-Security-Policy": POLICY})

    return router


@cache
def page_html() -> str:
    """Return the page. It asks the server for the languages, models and limits."""
    titles = {kind: title for kind, (title, _) in TITLES.items()}
    return render_page("page.html.j2", folder=Path(__file__).parent, titles=titles)
