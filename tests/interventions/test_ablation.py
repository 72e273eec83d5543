"""The importance of heads: the numbers, the page, and ``heed ablate``."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from heed.cli import main
from heed.comparison.challenge import ContrastivePair, contrastive_accuracy
from heed.errors import HeedError
from heed.inference.loading import load
from heed.inference.translator import Translator
from heed.interventions import Edit, ablate
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import Seq2Seq
from tests.finished import FinishedRun
from tests.tokenizers import train_tokenizer

SOURCES = ["the tired dog sleeps .", "two men play .", "a dog plays .", "two dogs sleep ."]
TARGETS = ["der müde Hund schläft .", "zwei Männer spielen .", "ein Hund spielt .", "zwei Hunde schlafen ."]
CONTRASTS = [ContrastivePair(src, good, TARGETS[0], "any") for src, good in zip(SOURCES[1:], TARGETS[1:], strict=True)]


@pytest.mark.parametrize("family", [pytest.param("transformer", marks=pytest.mark.slow), "rnn"])
def test_importance_is_what_is_lost_when_the_head_is_off(family: str, tiny_model: Callable[..., Seq2Seq]) -> None:
    tokenizer = train_tokenizer([*SOURCES, *TARGETS], vocab_size=40)
    search = {"beam": 1, "max_length_factor": 0.0, "max_length_extra": 9}
    for seed in range(50):  # until the translations have four words, which BLEU needs
        torch.manual_seed(seed)
        model = tiny_model(family, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
        for parameter in model.parameters():
            parameter.data.mul_(4)
        translator = Translator(model, tokenizer, search, tgt_lang="de")
        references = translator.translate(SOURCES)  # what the whole model says: every head can only lose
        if min(len(line.split()) for line in references) >= 4:
            break
    scores, heads = ablate(translator, SOURCES, references, contrasts=CONTRASTS)
    accuracy = contrastive_accuracy(translator, CONTRASTS)["any"].fraction
    assert scores == {"BLEU": pytest.approx(100), "challenge accuracy": pytest.approx(100 * accuracy)}
    sizes = model.attention_heads
    assert len(heads) == sum(layers * per_layer for layers, per_layer in sizes.values())
    for head in heads[:: 1 + len(heads) // 4]:
        edited = translator.with_edits([Edit(head.attention, "off", layers=[head.layer], heads=[head.head])])
        lost, (low, _) = head.lost["BLEU"]
        assert lost == pytest.approx(100 - edited.evaluate(SOURCES, references).bleu)
        assert low <= lost + 1e-9
        right = contrastive_accuracy(edited, CONTRASTS)["any"].fraction
        assert head.lost["challenge accuracy"][0] == pytest.approx(100 * (accuracy - right))
    assert max(head.lost["BLEU"][0] for head in heads) > 1
    assert ablate(translator, SOURCES[:1], TARGETS[:1], beam=1)[0].keys() == {"BLEU"}
    with pytest.raises(HeedError, match="no sentences"):
        ablate(translator, [], [])
    with pytest.raises(HeedError, match="no attention heads"):
        ablate(Translator(Ensemble([model]), tokenizer), SOURCES, TARGETS)


def test_the_command_prints_a_table_and_writes_a_page(
    finished: FinishedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {suffix: finished.folder / "translations" / f"valid.{suffix}" for suffix in ("src", "ref")}
    challenge, page = tmp_path / "challenge.jsonl", tmp_path / "page.html"
    pair = {"src": "The dog runs.", "good": "Der Hund läuft.", "bad": "Die Hund läuft.", "tag": "<b>"}
    challenge.write_text(json.dumps(pair), encoding="utf-8")
    options = ["--src", str(files["src"]), "--ref", str(files["ref"]), "--out", str(page), "--device", "cpu"]
    assert main(["ablate", str(finished.folder), *options, "--challenge", str(challenge)]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = r"attention +layer +head +BLEU lost +95 % interval +challenge accuracy lost +95 % interval"
    assert re.fullmatch(titles, lines[0])
    sources, references = (file.read_text(encoding="utf-8").splitlines() for file in files.values())
    _, (head,) = ablate(load(finished.folder, device="cpu"), sources, references)
    number = f"{round(head.lost['BLEU'][0], 1) + 0.0:+.1f}".replace("-", "−")
    assert re.match(rf"cross +1 +1 +{re.escape(number)} ", lines[1])
    assert lines[2] == f"Page: {page}"
    html = page.read_text(encoding="utf-8")
    assert "<h2>BLEU lost</h2>" in html
    assert "<h2>Challenge accuracy lost</h2>" in html
    assert "layer 1, head 1" in html
    assert number in html
    assert main(["ablate", str(finished.folder), *options, "--challenge", "none"]) == 0
    assert "Challenge" not in page.read_text(encoding="utf-8")


def test_wrong_files_end_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a", "one\ntwo\n"), ("b", "one\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert main(["ablate", "no-run", "--src", str(tmp_path / "a"), "--ref", str(tmp_path / "b")]) == 2
    assert "2 lines" in capsys.readouterr().err
    assert main(["ablate", str(tmp_path), "--src", str(tmp_path / "a"), "--ref", str(tmp_path / "a")]) == 2
    assert capsys.readouterr().err.startswith("heed: ")
