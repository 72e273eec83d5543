"""Scores: equal to the sacrebleu command on the same files, and known answers."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from heed.errors import HeedError
from heed.evaluation.scores import corpus_scores, metric_scores
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


def test_known_answers_with_several_references() -> None:
    perfect = metric_scores(REFERENCES, [REFERENCES], tgt_lang="de")
    assert {name: score.value for name, score in perfect.items()} == {"BLEU": pytest.approx(100), "chrF": 100, "TER": 0}
    # One substitution and one deletion in five words (Snover et al. 2006); TER ignores case.
    assert metric_scores(["A b x d"], [["a b c d e"]], tgt_lang="en")["TER"].value == pytest.approx(40)
    # TER uses the closest of several references.
    assert metric_scores(["a b x d"], [["a b c d e"], ["a b x d"]], tgt_lang="en")["TER"].value == 0
    # In Chinese TER counts characters: one of five.
    assert metric_scores(["我喜欢猫吗"], [["我喜欢猫吧"]], tgt_lang="zh")["TER"].value == pytest.approx(20)


def test_metric_scores_equal_corpus_scores() -> None:
    for language in ("de", "zh"):
        scores = corpus_scores(HYPOTHESES, REFERENCES, tgt_lang=language)
        found = metric_scores(HYPOTHESES, [REFERENCES], tgt_lang=language)
        assert (found["BLEU"].value, found["BLEU"].signature) == (scores.bleu, scores.bleu_signature)
        assert (found["chrF"].value, found["chrF"].signature) == (scores.chrf, scores.chrf_signature)


def test_invalid_references_and_tokenizers_are_errors() -> None:
    with pytest.raises(HeedError, match="2 translations cannot be scored against 1 reference"):
        metric_scores(["a", "b"], [["a", "b"], ["a"]], tgt_lang="de")
    with pytest.raises(HeedError, match="nothing to score"):
        metric_scores([], [[]], tgt_lang="de")
    with pytest.raises(HeedError, match="BLEU has no tokenizer 'words': choose one of none, "):
        metric_scores(["a"], [["a"]], tgt_lang="de", tokenize="words")
