"""The page of the server: one file that loads nothing from elsewhere."""

import re

from fastapi.testclient import TestClient

from tests.report.html import Page


def test_the_page_is_self_contained(client: TestClient) -> None:
    response = client.get("/")
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["content-security-policy"] == "frame-ancestors 'none'"
    page = Page(response.text)
    assert not page.find("link", "stylesheet")
    assert [each.attributes.get("src") for each in page.find("script")] == [None, None]
    assert [each.attributes["href"] for each in page.find("link")] == ["data:,"]
    (policy,) = (e.attributes["content"] for e in page.find("meta") if e.attributes.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", response.text))
    assert addresses == {"http://www.w3.org/2000/svg"}


def test_the_page_is_not_part_of_the_api(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert "/" not in paths
    assert "/attend" in paths


def test_controls_have_names(client: TestClient) -> None:
    page = Page(client.get("/").text)
    for control in [*page.find("select"), *page.find("textarea")]:
        assert control.attributes.get("aria-label")
    for fieldset in page.find("fieldset"):
        assert any(child.tag == "legend" and child.text.strip() for child in fieldset.children)
