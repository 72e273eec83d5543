"""Metrics: known answers, equality with sacreBLEU, and the packages and inputs that some of them need."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from heed.errors import HeedError
from heed.evaluation.metrics import METRICS, find_metrics, find_unusable, format_score, spbleu
from heed.evaluation.scores import SystemOutput
from tests.tokenizers import train_tokenizer

REFERENCES = ["Der Mann fährt Rad.", "Zwei Hunde spielen im Park.", "Ein Kind schläft."]
HYPOTHESES = ["Der Mann fährt  Rad.", "Zwei hunde spielen in einem Park.", "Ein Kind"]
OUTPUT = SystemOutput(hypotheses=HYPOTHESES, references=[REFERENCES], tgt_lang="de")


def value(name: str, output: SystemOutput | None = None, **changes: Any) -> float:
    return METRICS[name](replace(output or OUTPUT, **changes)).value


def output(hypotheses: list[str], *references: list[str], **given: Any) -> SystemOutput:
    return SystemOutput(hypotheses=hypotheses, references=references, **given)


def test_precisions_multiply_to_bleu() -> None:
    """BLEU = BP · (p₁ p₂ p₃ p₄)^¼ (Papineni et al. 2002, eq. 3)."""
    precisions = [value(f"precision-{n}") for n in (1, 2, 3, 4)]
    brevity = math.exp(min(0.0, 1 - 1 / value("length-ratio")))
    assert value("BLEU") == pytest.approx(brevity * math.prod(precisions) ** 0.25)
    assert precisions[0] == pytest.approx(100 * 11 / 14)  # of 14 words "hunde", "in" and "einem" are wrong
    assert value("length-ratio") == pytest.approx(14 / 15)


def bleu_n(hypotheses: list[list[str]], references: list[list[list[str]]], n: int) -> float:
    """BLEU-n of token lists with one or more lists of references, by the formula and sacreBLEU's smoothing."""

    def grams(tokens: list[str], size: int) -> Counter[tuple[str, ...]]:
        return Counter(zip(*(tokens[start:] for start in range(size)), strict=False))

    sentences = list(zip(hypotheses, *references, strict=True))
    ours = sum(map(len, hypotheses))
    theirs = sum(min((abs(len(ref) - len(hyp)), len(ref)) for ref in refs)[1] for hyp, *refs in sentences)
    logs, halves = [], 1.0
    for size in range(1, n + 1):
        total = matched = 0
        for hyp, *refs in sentences:
            most = Counter[tuple[str, ...]]()
            for ref in refs:
                most |= grams(ref, size)
            total += max(len(hyp) - size + 1, 0)
            matched += (grams(hyp, size) & most).total()
        if (size == 1 and not matched) or not total:
            return 0.0
        halves *= 1 if matched else 0.5
        logs.append(math.log((matched or halves) / total))
    return 100 * math.exp(min(0.0, 1 - theirs / ours) + sum(logs) / n)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_bleu_n_is_cumulative_with_brevity_penalty(data: st.DataObject) -> None:
    """As NLTK's corpus_bleu with n equal weights, except for the smoothing of orders without a match."""
    size, number = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 2))
    words = st.lists(st.sampled_from("abc"), max_size=9)
    hypotheses, *references = (data.draw(st.lists(words, min_size=size, max_size=size)) for _ in range(1 + number))
    lines = output([" ".join(each) for each in hypotheses], *[[" ".join(each) for each in ref] for ref in references])
    for n in (1, 2, 3, 4):
        expected = bleu_n(hypotheses, references, n)
        assert value(f"BLEU-{n}", lines) == pytest.approx(expected, abs=1e-9)
    assert value("BLEU-4", lines) == value("BLEU", lines)


def test_chrf_with_words_is_that_of_sacrebleu() -> None:
    assert value("chrF++") == CHRF(word_order=2).corpus_score(HYPOTHESES, [REFERENCES]).score
    assert value("chrF++") != value("chrF")


def test_ter() -> None:
    # One substitution and one deletion in five words (Snover et al. 2006); TER ignores case.
    assert value("TER", output(["A b x d"], ["a b c d e"])) == pytest.approx(40)
    # The closest of several references counts. In Chinese, TER counts characters: one of five.
    assert value("TER", output(["a b x d"], ["a b c d e"], ["a b x d"])) == 0
    assert value("TER", output(["我喜欢猫吗"], ["我喜欢猫吧"], tgt_lang="zh")) == pytest.approx(20)


def test_exact_match() -> None:
    assert value("exact-match") == pytest.approx(100 / 3)  # white space does not count
    two = output(["a", "B", "c"], ["x", "b", "y"], ["a", "z", "y"])
    assert value("exact-match", two) == pytest.approx(100 / 3)
    assert value("exact-match", two, lowercase=True) == pytest.approx(200 / 3)
    turkish = output(["IŞIK", "İZMİR"], ["ışık", "izmir"], lowercase=True)
    assert value("exact-match", turkish, tgt_lang="tur") == 100 > value("exact-match", turkish, tgt_lang="en")


def test_on_target_script() -> None:
    references = ["Привет, мир", "Он читает Tolstoi", "5", ""]
    right = ["Привет", "Tolstoi", "5", ""]
    assert METRICS["on-target-script"](output(right, references)).signature == "nrefs:1|scripts:cyrillic+latin"
    assert value("on-target-script", output(right, references)) == 100
    few = ["Привет, мир", "Он читает длинную книгу To", "Она читает её ещё раз", ""]
    assert value("on-target-script", output(["Hello", "Он читает", "", ""], few)) == 50
    japanese = ["猫が好きです", "カメラを買った", "東京"]
    assert value("on-target-script", output(["東京都", "かわいい", "cat"], japanese)) == pytest.approx(200 / 3)


def test_on_target_language() -> None:
    pytest.importorskip("py3langid")
    german = ["Ein Mann fährt mit dem Fahrrad durch die Stadt.", "Zwei Kinder spielen im Garten mit einem Ball.", "12"]
    english = ["A man rides his bicycle through the town.", *german[1:]]
    assert value("on-target-language", output(german, german, tgt_lang="deu_Latn")) == 100
    assert value("on-target-language", output(english, german, tgt_lang="de")) == pytest.approx(200 / 3)
    with pytest.raises(HeedError, match="'tlh'"):
        value("on-target-language", tgt_lang="tlh")


def test_perplexity() -> None:
    """Of tokens and of words: exp of the mean negative log-likelihood (Jelinek et al. 1977)."""
    known = replace(OUTPUT, likelihood=lambda: (24.0, 16))
    assert value("perplexity", known) == pytest.approx(math.exp(24 / 16))
    assert value("word-perplexity", known) == pytest.approx(math.exp(24 / 12))
    both = replace(known, references=[REFERENCES, REFERENCES], likelihood=lambda: (48.0, 32))
    assert value("word-perplexity", both) == value("word-perplexity", known)
    thai = output(["ฉันรักแมว"], ["ฉันรักแมว ดำ"], tgt_lang="th", likelihood=lambda: (22.0, 7))
    per_character = METRICS["word-perplexity"](thai)
    assert per_character.value == pytest.approx(math.exp(22 / 11))  # two words by white space
    assert "per:character" in per_character.signature
    with pytest.raises(HeedError, match="needs the model"):
        value("perplexity")


def test_spbleu_is_bleu_of_pieces(tmp_path: Path) -> None:
    train_tokenizer(REFERENCES, vocab_size=60, joint=True).save(tmp_path)
    file = tmp_path / "tokenizer.model"
    found = spbleu(OUTPUT, model=str(file))
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_file=str(file))
    pieces = [[" ".join(processor.encode(line, out_type=str)) for line in lines] for lines in (HYPOTHESES, REFERENCES)]
    assert found.value == BLEU(tokenize="none", force=True).corpus_score(pieces[0], [pieces[1]]).score
    assert "tok:none" in found.signature
    assert "|spm:" in found.signature
    assert found.not_comparable is None
    assert spbleu(replace(OUTPUT, lowercase=True), model=str(file)).not_comparable == "lower-cased"
    (tmp_path / "empty").touch()
    for wrong in ("empty", "absent"):
        with pytest.raises(HeedError, match=f"{wrong} cannot be read as a SentencePiece model"):
            spbleu(OUTPUT, model=str(tmp_path / wrong))


def test_tokenized_bleu_is_of_lower_cased_moses_tokens() -> None:
    pytest.importorskip("sacremoses")
    lines = output(["Er liest »Die Welt«, z.B."], ["er liest » die welt « , z.B."], tgt_lang="de")
    found = METRICS["tokenized-BLEU"](lines)
    assert found.value == pytest.approx(100)
    assert "case:lc|eff:no|tok:none" in found.signature
    assert "|moses:de|sacremoses:" in found.signature
    assert value("BLEU", lines) < 50
    assert str(found.not_comparable).startswith("tokenized; lower-cased")
    assert (
        "|tok:char|" in METRICS["tokenized-BLEU"](output(["我喜欢猫和狗"], ["我喜欢猫和鸟"], tgt_lang="zh")).signature
    )


def test_every_metric_says_how_it_was_computed() -> None:
    given = {"sources": ["a"], "tgt_lang": "de", "likelihood": lambda: (1.0, 1)}
    lacking = find_unusable(METRICS.items(), **given)
    one = replace(OUTPUT, hypotheses=["a"], references=[["b"]], **given)
    signatures = [metric(one).signature for name, metric in METRICS.items() if name not in lacking]
    assert len({*signatures}) == len(signatures) >= 13
    assert {*lacking} <= {"spBLEU", "tokenized-BLEU", "on-target-language", "COMET"}  # packages and files
    assert all(reason.endswith(".") or "cannot be used" in reason for reason in lacking.values())


def test_metrics_are_found_by_name() -> None:
    assert [*find_metrics(["chrf++", "BLEU", "bleu"], METRICS)] == ["chrF++", "BLEU"]
    with pytest.raises(HeedError, match=r"There is no metric 'chrf2' \(did you mean chrf"):
        find_metrics(["ter", "chrf2"], METRICS)
    with pytest.raises(HeedError, match=r"'mine': .* Metrics of your own are computed in training only \(docs/metrics"):
        find_metrics(["mine"], METRICS)


def test_scores_around_one_have_four_decimals() -> None:
    assert [format_score(*each) for each in (("COMET", 0.81234), ("ter", 50.0), ("ter", None))] == [
        "0.8123", "50.00", "not finite"
    ]  # fmt: skip
