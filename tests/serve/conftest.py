"""A server for tiny models."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import heed
from heed.serve.application import create_app
from heed.serve.models import ServedModel
from heed.serve.settings import ServeSettings
from tests.exchange.models import transformer, write_run


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a tiny transformer with random weights, from en to de."""
    return write_run(tmp_path_factory.mktemp("served") / "run", transformer())


@pytest.fixture
def model(run_folder: Path) -> ServedModel:
    return ServedModel("tiny", heed.load(run_folder, device="cpu"))


@pytest.fixture
def client(model: ServedModel) -> Iterator[TestClient]:
    """A client of a server with default settings."""
    with TestClient(create_app([model])) as connected:
        yield connected


@pytest.fixture
def serve(model: ServedModel) -> Iterator[Callable[..., TestClient]]:
    """``serve(**settings)`` returns a client of a server with these settings."""
    clients = []

    def start(*models: ServedModel, **settings: Any) -> TestClient:
        clients.append(TestClient(create_app(models or [model], ServeSettings(**settings))))
        return clients[-1].__enter__()

    yield start
    for each in clients:
        each.__exit__(None, None, None)
