"""LibreTranslate's API."""

from fastapi.testclient import TestClient

from heed.serve.models import ServedModel
from tests.export.models import LINES


def test_a_text_and_a_list_are_translated_as_by_the_translator(client: TestClient, model: ServedModel) -> None:
    expected = model.translator.translate(LINES)
    assert any(expected)
    languages = {"source": "en", "target": "de"}
    assert client.post("/translate", json={"q": LINES[0], **languages}).json() == {"translatedText": expected[0]}
    assert client.post("/translate", json={"q": LINES, **languages}).json() == {"translatedText": expected}
    assert client.post("/translate", data={"q": LINES[1], **languages}).json() == {"translatedText": expected[1]}


def test_the_server_describes_itself(client: TestClient) -> None:
    assert client.get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/models").json() == [{"name": "tiny", "directions": [{"source": "en", "target": "de"}]}]
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 10_000
    assert settings["language"]["target"] == {"code": "de", "name": "German"}
