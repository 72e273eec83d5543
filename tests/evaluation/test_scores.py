"""Scores: equal to the sacrebleu command on the same files, and known answers."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from heed.errors import HeedError
from heed.evaluation.scores import SystemOutput, bleu, chrf, corpus_scores, score_output
from tests import forkserver

REFERENCES = [
    "Der Mann fährt mit dem Fahrrad .",
    "Zwei Hunde spielen im Park.",
    "Sie liest ein Buch über „Wale“,  während es regnet. ",
    "Ein Kind schläft.",
]
HYPOTHESES = [
    "Der Mann fährt auf dem Fahrrad .",
    "Zwei Hunde spielen in einem Park.",
    "Sie liest ein buch über „Wale“,  während es regnet. ",
    "",
]


def test_scores_equal_the_sacrebleu_command(tmp_path: Path) -> None:
    for name, lines in (("hyp", HYPOTHESES), ("ref", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-m", "bleu", "chrf", "-w", "10"]
    answer = forkserver.run(command, cwd=tmp_path, capture_output=True, check=True)
    bleu, chrf = json.loads(answer.stdout)
    scores = corpus_scores(HYPOTHESES, REFERENCES, tgt_lang="de")
    assert scores.bleu == pytest.approx(bleu["score"], abs=1e-9)
    assert scores.chrf == pytest.approx(chrf["score"], abs=1e-9)
    assert scores.bleu_signature == bleu["signature"]
    assert scores.chrf_signature == chrf["signature"]
    assert "case:mixed" in scores.bleu_signature
    assert "tok:13a" in scores.bleu_signature


def test_known_answers() -> None:
    assert corpus_scores(REFERENCES, REFERENCES, tgt_lang="de").bleu == pytest.approx(100)
    assert corpus_scores(["a b c d"], ["w x y z"], tgt_lang="de").chrf == 0
    # Precisions 4/5, 3/4, 2/3, 1/2, brevity penalty exp(1 - 6/5) (Papineni et al. 2002).
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25 * 2.718281828459045 ** (1 - 6 / 5)
    assert corpus_scores(["a b c d x"], ["a b c d e f"], tgt_lang="en").bleu == pytest.approx(expected)
    assert corpus_scores(["A b c d e"], ["a b c d e"], tgt_lang="en").bleu < 100


def test_the_target_language_chooses_the_tokenizer() -> None:
    for language in ("zh", "zh-Hant", "ZH_cn"):
        scores = corpus_scores(["我喜欢猫和狗"], ["我喜欢猫和鸟"], tgt_lang=language)
        assert "tok:zh|" in scores.bleu_signature
        assert scores.bleu > 10  # one word by 13a, six by zh
    for language, module in (("ja", "MeCab"), ("ko", "mecab_ko")):
        mecab = importlib.util.find_spec(module) is not None
        scores = corpus_scores(["猫が好きです"], ["猫が好きだ"], tgt_lang=language)
        assert f"tok:{language}-mecab" in scores.bleu_signature if mecab else "tok:char|" in scores.bleu_signature


def test_invalid_lines_are_errors() -> None:
    with pytest.raises(HeedError, match="nothing to score"):
        corpus_scores([], [], tgt_lang="de")
    with pytest.raises(HeedError, match="2 translations cannot be scored against 1 reference"):
        corpus_scores(["a", "b"], ["a"], tgt_lang="de")


def test_several_references_and_reasons() -> None:
    with pytest.raises(HeedError, match="2 translations cannot be scored against 1 reference"):
        SystemOutput(hypotheses=["a", "b"], references=[["a", "b"], ["a"]])
    with pytest.raises(HeedError, match="BLEU has no tokenizer 'words': choose one of none, "):
        bleu(SystemOutput(hypotheses=["a"], references=[["a"]], tokenize="words"))
    either = SystemOutput(hypotheses=["a b c d"], references=[["a b c x"], ["a b c d"]])
    assert bleu(either).value == pytest.approx(100)


@pytest.mark.parametrize(("maximized", "biased"), [("bleu", "BLEU"), ("chrf", "chrF"), (None, None)])
def test_a_metric_that_the_search_maximized_is_biased(maximized: str | None, biased: str | None) -> None:
    output = SystemOutput(hypotheses=HYPOTHESES, references=[REFERENCES], tgt_lang="de", maximized=maximized)
    reason = biased and f"{biased} is biased, because minimum Bayes risk search maximized it"
    found = {"BLEU": bleu(output), "chrF": chrf(output), "chrF++": chrf(output, word_order=2)}
    names = {name for name, score in found.items() if score.not_comparable}
    assert names == {"bleu": {"BLEU"}, "chrf": {"chrF", "chrF++"}, None: set()}[maximized]
    assert score_output(output, {}).not_comparable == reason
