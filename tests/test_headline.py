"""The default models translate the sentences that README and the documentation show."""

import re
from pathlib import Path

import headline
import pytest
from trainings import ROOT, train

from heed.inference.loading import load

TRANSLATED = re.compile(
    r"""echo\ "([^"]+)"\ \|\ heed\ translate | \b(?:translate|score)\(\["([^"]+)" | \bq="([^"]+)" | "q":\ "([^"]+)" """,
    re.VERBOSE,
)
"""A sentence that a page translates: on the command line, in Python, or by the server."""
RIGHT = {
    "The dog saw the cat.": "Der Hund sah die Katze.",
    "The man ate the fish.": "Der Mann aß den Fisch.",
    "The fish ate the man.": "Der Fisch fraß den Mann.",
    "It was too tired.": "Es war zu müde.",
    "Sarah was walking in the park with her cat, Alex. It was tired.": "Sarah ging mit ihrer Katze Alex im Park "
    "spazieren. Sie war müde.",
    **{sentence.source: sentence.translations[0] for sentence in headline.SENTENCES},
}


def documented() -> set[str]:
    """Return the sentences that the pages translate with a model of the built-in corpus."""
    pages = [ROOT / "README.md", ROOT / "src" / "heed" / "__init__.py", *ROOT.glob("docs/**/*.md")]
    found = (TRANSLATED.findall(page.read_text(encoding="utf-8")) for page in pages)
    return {sentence for page in found for groups in page for sentence in groups if sentence}


def test_the_right_translation_of_every_documented_sentence_is_known() -> None:
    assert len(documented()) > 5
    assert documented() <= {*RIGHT}


@pytest.mark.full
@pytest.mark.parametrize("model", ["transformer", "rnn"])
def test_the_default_models_reach_their_aims(tmp_path: Path, model: str) -> None:
    run = tmp_path / "run"
    train(run, f"model={model}", "seed=1")
    assert headline.score(run).misses == []
    if model == "transformer":
        sentences = sorted(documented())
        assert load(run).translate(sentences) == [RIGHT[sentence] for sentence in sentences]
