"""Generated requests, valid and not, for every endpoint of the OpenAPI description."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.serve.processes import Server, serving

pytestmark = pytest.mark.slow

GET = ("/languages", "/models", "/health", "/metrics", "/frontend/settings")
POST = ("/translate", "/detect", "/attend")
ENDPOINTS = [
    *(("GET", path, "positive") for path in GET),
    *(("POST", path, mode) for path in POST for mode in ("positive", "negative")),
]


@pytest.fixture(scope="module")
def server(run_folder: Path) -> Iterator[Server]:
    with serving(run_folder) as running:
        yield running


@pytest.mark.parametrize("languages", [{}, {"source": "en", "target": "de"}], ids=["any languages", "known languages"])
@pytest.mark.parametrize(("method", "path", "mode"), ENDPOINTS)
def test_no_request_makes_the_server_fail(
    server: Server, method: str, path: str, mode: str, languages: dict[str, str]
) -> None:
    # Imported here, because the import takes seconds of every collection.
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    api = schemathesis.openapi.from_url(f"{server.url}/openapi.json")

    @given(case=api[path][method].as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def check(case: schemathesis.Case) -> None:
        if isinstance(case.body, dict) and path in ("/translate", "/attend"):
            case.body |= languages
        case.call_and_validate(checks=[not_a_server_error, status_code_conformance, response_schema_conformance])

    check()
