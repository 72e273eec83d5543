"""The model card that a run leaves in its model folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import heed
from heed.evaluation.buckets import WORD_COUNTS
from heed.evaluation.scores import corpus_scores
from heed.evaluation.words import casefolded_words
from heed.launch import finish
from heed.runs.model_card import write_model_card

SMOKE = ["debug=smoke", "model=rnn", "model.d_embedding=16", "model.d_model=16", "data.train=500", "data.valid=20",
         "data.test=10", "data.long=5", "search=greedy"]  # fmt: skip


def results(references: list[str], translations: list[str]) -> dict[str, object]:
    """The content of results.json with scores of one set."""
    scores = corpus_scores(translations, references, tgt_lang="de")
    own = {name: getattr(scores, name) for name in ("bleu", "chrf", "bleu_signature", "chrf_signature")}
    own["not_comparable"] = "it is lower-cased"
    return {
        "name": "tiny",
        "model": "rnn",
        "data": "files",
        "src_lang": "en",
        "tgt_lang": "de",
        "seed": 1,
        "data_digest": "abc",
        "tokenizer_digest": "def",
        "steps": 1200,
        "epochs": 1.5,
        "tokens": 98_000,
        "train_seconds": 12.0,
        "device": "1 × cpu",
        "weights": "last",
        "selected_step": 1200,
        "git": None,
        "params": 3704,
        "decode_seconds": {"valid": 2.0},
        "search": {"beam": 5},
        "options": ["model=rnn", "cache_dir=/home/me/cache"],
        "valid": own,
        "tests": {},
    }


def write_valid(run: Path, *sides: list[str]) -> None:
    """Write sources, references and translations of the validation set of a run, and make its model folder."""
    (run / "model").mkdir()
    (run / "translations").mkdir()
    for suffix, lines in zip(("src", "ref", "hyp"), sides, strict=True):
        (run / "translations" / f"valid.{suffix}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_card_has_scores_and_front_matter(tmp_path: Path) -> None:
    references = [f"ein Hund schläft auf dem Sofa {i}" for i in range(60)]
    translations = [line if i < 30 else "etwas ganz anderes" for i, line in enumerate(references)]
    facts: dict[str, Any] = results(references, translations)
    write_valid(tmp_path, ['a "dog" sleeps'] * 60, references, translations)
    directions = [("eng_Latn", "de"), ("de", "en_GB")]  # the hub knows ISO 639 only
    write_model_card(tmp_path, facts, directions=directions, license=None)
    text = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    matter = yaml.safe_load(front)
    assert matter["language"] == ["en", "de"]
    assert matter["pipeline_tag"] == "translation"
    assert matter["license"] == "unknown"
    bleu = facts["valid"]["bleu"]
    assert matter["model-index"][0]["results"][0]["metrics"] == [{"type": "bleu", "value": round(bleu, 2)}]
    for part in (f"| valid | BLEU | {bleu:.2f} | ", "it is lower-cased", "`model=rnn`"):
        assert part in body
    low, high = body.split(f"| valid | BLEU | {bleu:.2f} | ")[1].split(" | ")[0].split(" to ")
    assert float(low) < bleu < float(high)
    for command in (
        "heed translate DIR",
        'heed.load("DIR").translate("a dog sleeps")',
        "heed serve DIR",
        "heed export DIR",
    ):
        assert command in body
    assert "/home/me" not in text  # the card is published
    assert "60 sentences in 2.0 s (30.0 a second)" in body


def test_the_licence_is_that_of_the_option(tmp_path: Path) -> None:
    facts: dict[str, Any] = results(["ein Hund"], ["ein Hund"])
    write_valid(tmp_path, ["a dog"], ["ein Hund"], ["ein Hund"])
    for chosen, matter, section in (("cc-by-4.0", "cc-by-4.0", "cc-by-4.0"), (None, "unknown", "Not chosen yet")):
        write_model_card(tmp_path, facts, directions=[("en", "de")], license=chosen)
        _, front, body = (tmp_path / "model" / "README.md").read_text(encoding="utf-8").split("---\n", 2)
        assert yaml.safe_load(front)["license"] == matter
        assert body.split("## Licence\n\n")[1].startswith(section)


@pytest.mark.full
def test_a_run_is_finished_only_with_its_card(run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(finish, "write_model_card", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run("smoke", *SMOKE)
    folder = run("smoke", *SMOKE, "resume=true", "license=mit")
    assert "license: mit" in (folder / "model" / "README.md").read_text(encoding="utf-8")


@pytest.mark.full
def test_every_run_writes_its_card(run: Callable[..., Path]) -> None:
    folder = run("smoke", *SMOKE, "seed=7", "test=false", "metrics=[ter,perplexity]")
    text = (folder / "model" / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(text.split("---\n")[1])["language"] == ["en", "de"]
    assert "model=rnn" in text
    assert "en → de" in text
    assert heed.load(folder).translate("the dog sleeps .")
    assert "| valid | BLEU |" in text
    assert "| test | BLEU |" not in text
    words = {
        word for line in (folder / "translations" / WORD_COUNTS).read_text().splitlines() for word in line.split()[:1]
    }
    (folder / "results.json").unlink()
    run("smoke", *SMOKE, "seed=7", "metrics=[ter,perplexity]", "resume=true")  # as a search scores its winner
    scores = json.loads((folder / "results.json").read_text())["tests"]
    assert {*casefolded_words((folder / "translations" / "test.src").read_text())} <= words
    assert all({*one["metrics"]} == {"ter", "perplexity"} for one in scores.values())
    scored = (folder / "model" / "README.md").read_text(encoding="utf-8")
    assert all(f"| {name} | BLEU | {scores[name]['bleu']:.2f} |" in scored for name in ("test", "long"))
