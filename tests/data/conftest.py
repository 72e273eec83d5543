"""Fixtures for the tests of data/."""

from pathlib import Path

import pytest

from tests.data.texts import write_corpus


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the text files of `write_corpus`."""
    write_corpus(tmp_path)
    return tmp_path
