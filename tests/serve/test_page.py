"""The page of the server: one file that loads nothing from elsewhere."""

import re

import pytest
from fastapi.testclient import TestClient

from heed.serve.application import create_app
from heed.serve.models import ServedModel
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


@pytest.mark.parametrize("path", ["/", "/docs"])
@pytest.mark.parametrize("root_path", ["", "/mt"])
def test_pages_load_nothing_from_other_hosts_or_paths(model: ServedModel, path: str, root_path: str) -> None:
    client = TestClient(create_app([model]), root_path=root_path)
    response = client.get(path)
    assert response.status_code == 200
    page = Page(response.text)
    linked = [each.attributes[name] or "" for each in page.elements for name in ("href", "src", "action", "data")
              if name in each.attributes]  # fmt: skip
    assert linked
    for address in [*linked, *re.findall(r"url\(([^)]*)\)|fetch\(\"([^\"]*)", response.text)]:
        assert not re.match(r"[a-z]+://|/", "".join(address)), address
    for address in set(linked) - {"data:,", "."}:
        assert client.get(f"/{address}").status_code == 200


def test_api_page_describes_every_endpoint(client: TestClient) -> None:
    text = Page(client.get("/docs").text).text
    api = client.get("/openapi.json").json()
    for path, methods in api["paths"].items():
        for method, endpoint in methods.items():
            assert f"{method.upper()} {path}" in text
            if "requestBody" in endpoint:
                schema = endpoint["requestBody"]["content"]["application/json"]["schema"]
                assert all(name in text for name in schema["properties"])
    assert all(status in text for status in api["paths"]["/translate"]["post"]["responses"] if status != "200")


def test_openapi_names_the_path_behind_a_proxy(model: ServedModel) -> None:
    client = TestClient(create_app([model]), root_path="/mt")
    assert client.get("/openapi.json").json()["servers"] == [{"url": "/mt"}]
    with client:
        answer = client.post("/translate", json={"q": "5", "source": "en", "target": "de"})
    assert answer.json()["translatedText"] == "5"


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
