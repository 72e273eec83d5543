"""Scores: equal to the sacrebleu command on the same files, and known answers."""

import importlib.util
from dataclasses import replace
from functools import partial

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from heed.errors import HeedError
from heed.evaluation.scores import SystemOutput, bleu, chrf, corpus_scores, score_output, sentence_scores, ter
from heed.evaluation.significance import bleu_of_sums, sentence_statistics

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


THAI = ["ผมชอบแมวสีดำตัวนี้มาก", "เมื่อวานนี้เราไปเที่ยวที่เชียงใหม่ แล้วกลับบ้านตอนเย็น"]
BURMESE = ["ကျွန်တော် ကျောင်းသို့ သွားသည်။", "မနက်ဖြန် မိုးရွာမည် ထင်သည်။"]
KHMER = ["ខ្ញុំចូលចិត្តឆ្មាខ្មៅនេះណាស់។", "ម្សិលមិញយើងទៅលេងនៅសៀមរាប។"]
LAO = ["ຂ້ອຍມັກແມວສີດຳໂຕນີ້ຫຼາຍ", "ມື້ວານນີ້ພວກເຮົາໄປຫຼິ້ນຢູ່ຫຼວງພະບາງ"]
TIBETAN = ["ང་ཚོ་ཁ་ས་ལྷ་ས་ལ་ཕྱིན་པ་ཡིན།", "བྱི་ལ་ནག་པོ་འདི་ང་དགའ་པོ་ཡོད།"]
JAPANESE = ["昨日、私たちは京都へ行きました。", "この黒い猫がとても好きです。"]
CHINESE = ["我们昨天去了北京，晚上才回家。", "我非常喜欢这只黑猫。"]

SPACELESS = [
    (THAI, "th"), (THAI, ""), (THAI, "de"), (THAI, "zh"), (BURMESE, "mya_Mymr"), (KHMER, "km"), (LAO, "lo"),
    (TIBETAN, "bo"), (JAPANESE, ""), (JAPANESE, "en"), (JAPANESE, "zh"), (CHINESE, "und"), (CHINESE, "ko"),
    (CHINESE, "yue_Hant"),
]  # fmt: skip


@pytest.mark.parametrize(("references", "language"), SPACELESS)
def test_text_without_spaces_is_scored_by_characters(references: list[str], language: str) -> None:
    hypotheses = [references[0][:-3] + references[0][-1], references[1][2:]]
    output = SystemOutput(hypotheses=hypotheses, references=[references], tgt_lang=language)
    found, edits = bleu(output), ter(output)
    assert "|tok:char|" in found.signature
    assert found.value == BLEU(tokenize="char").corpus_score(hypotheses, [references]).score > 50
    assert "use chrF or spBLEU" in str(found.not_comparable)
    by_character = [[" ".join(line) for line in lines] for lines in (hypotheses, references)]
    assert 0 < edits.value == TER().corpus_score(by_character[0], [by_character[1]]).score < 50
    assert edits.signature.endswith("|split:char")
    assert "use chrF or spBLEU" in str(edits.not_comparable)
    # Validation, comparison and the tests of significance agree.
    assert score_output(output, {}).bleu == found.value
    sums = sentence_statistics(hypotheses, references, tgt_lang=language)["BLEU"].sum(0)
    assert bleu_of_sums(sums) == pytest.approx(found.value)


WITH_WORDS = [
    (["Ja.", "Übergangswahrscheinlichkeit", "Donaudampfschifffahrtsgesellschaft"], "de", "13a"),
    (["Nein", "", "doch"], "", "13a"),
    (["ผม ชอบ แมว สี ดำ ตัว นี้ มาก", "เมื่อวาน เรา ไป เที่ยว ที่ เชียงใหม่"], "th", "13a"),
    (["我 们 昨天 去 了 北京 。"], "", "13a"),
    (["अनुवाद", "मुझे यह काली बिल्ली बहुत पसंद है।"], "hi", "13a"),
    (["나는 이 검은 고양이를 아주 좋아합니다."], "kor_Hang", "ko"),
    (["Peking (北京) ist groß.", "Er schrieb 東京."], "de", "13a"),
    (CHINESE, "cmn_Hans", "zh"),
    (CHINESE, "zh-TW", "zh"),
    ([""], "th", "13a"),
]


@pytest.mark.parametrize(("references", "language", "tokenizer"), WITH_WORDS)
def test_text_with_words_keeps_its_tokenizer(references: list[str], language: str, tokenizer: str) -> None:
    output = SystemOutput(hypotheses=references, references=[references], tgt_lang=language)
    signature = bleu(output).signature
    if tokenizer == "ko" and "tok:char" in signature:  # MeCab is not installed
        assert bleu(output).not_comparable == "words split by tokenizer char, not ko-mecab"
    else:
        assert f"|tok:{tokenizer}" in signature
        assert bleu(output).not_comparable in (None, "the references have no upper case")
    assert "split:char" not in ter(output).signature


def test_a_chosen_tokenizer_is_used_and_said() -> None:
    found = bleu(SystemOutput(hypotheses=THAI, references=[THAI], tgt_lang="th", tokenize="13a"))
    assert "|tok:13a|" in found.signature
    assert found.not_comparable == "words split by tokenizer 13a, not char"


def test_lower_case_is_that_of_the_language() -> None:
    output = SystemOutput(hypotheses=["IŞIK İLE AYDIN İZMİR"], references=[["ışık ile aydın izmir"]], lowercase=True)
    for metric in (bleu, chrf):
        right, other = metric(replace(output, tgt_lang="tur_Latn")), metric(replace(output, tgt_lang="en"))
        assert right.value == pytest.approx(100)
        assert other.value < 60
        assert right.signature == f"{other.signature}|lower:tr"


def test_scores_of_sentences_are_those_of_sacrebleu() -> None:
    output = SystemOutput(hypotheses=HYPOTHESES, references=[REFERENCES, REFERENCES[::-1]], tgt_lang="de")
    metrics = {"BLEU": bleu, "chrF": chrf, "TER": ter, "BLEU-2": partial(bleu, order=2)}
    found = sentence_scores(metrics, output)
    theirs = [BLEU(effective_order=True), CHRF(), TER(), BLEU(effective_order=True, max_ngram_order=2)]
    for scores, metric in zip(found.values(), theirs, strict=True):
        sentences = zip(HYPOTHESES, REFERENCES, REFERENCES[::-1], strict=True)
        assert scores == [metric.sentence_score(hyp, refs).score for hyp, *refs in sentences]
    # The whole set decides how its sentences are split: the second one alone looks like a text of words.
    mixed = SystemOutput(hypotheses=[THAI[0], "a b"], references=[[THAI[0], "a c"]], tgt_lang="th")
    by_character = BLEU(tokenize="char", effective_order=True).sentence_score("a b", ["a c"])
    assert sentence_scores({"BLEU": bleu}, mixed)["BLEU"] == [pytest.approx(100), by_character.score]
