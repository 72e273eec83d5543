"""The directions of models trained with data.both_directions=true, and rules of sentence ends by language."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import heed
from heed.errors import HeedError
from heed.inference import model_folder
from heed.inference.segmentation import sentence_rules
from heed.inference.translator import Translator
from heed.models import build_model
from heed.models.seq2seq import Seq2Seq
from tests.tokenizers import train_tokenizer

LINES = ["a man rides a bike .", "the dog sleeps .", "two children play with a red ball in the park ."]


@pytest.fixture
def folder(tmp_path: Path, tiny_model: Callable[..., Seq2Seq]) -> Path:
    """A model folder of both directions, en-de first."""
    tokenizer = train_tokenizer(LINES, vocab_size=60, joint=True, control_symbols=["<2de>", "<2en>"])
    torch.manual_seed(3)
    network = build_model(tiny_model("transformer").config, src_vocab=60, tgt_vocab=60, joint=True)
    languages = {"src_lang": "en", "tgt_lang": "de"}
    model_folder.save(tmp_path / "model", network, tokenizer, extra=languages)
    return tmp_path / "model"


def test_a_direction_marks_sources_with_its_tag(folder: Path) -> None:
    own, other = heed.load(folder), heed.load(folder, direction="de-en")
    assert own.directions == ["en-de", "de-en"]
    assert other.directions == ["de-en", "en-de"]
    assert (other.src_lang, other.tgt_lang) == ("de", "en")
    for translator, tag in ((own, "<2de>"), (other, "<2en>")):
        assert translator.attend(LINES[0], LINES[1])[0].src_pieces[0] == tag
    assert own.score(LINES, LINES) != other.score(LINES, LINES)
    assert other.in_direction("en-de").score(LINES, LINES) == own.score(LINES, LINES)
    assert own.in_direction(None).score(LINES, LINES) == own.score(LINES, LINES)
    for name in ("deu-eng", "deu_Latn-eng_Latn", "de-EN_us", "de-en-US", "de-AT-en", "eng", "EN", "en-GB"):
        assert own.in_direction(name).directions[0] == "de-en"


def test_a_tag_follows_that_of_the_language(tmp_path: Path, tiny_model: Callable[..., Seq2Seq]) -> None:
    """In every direction, and whichever is chosen first."""
    symbols = ["<2de>", "<2en>", "<crawl>", "<BT>"]
    tokenizer = train_tokenizer(LINES, vocab_size=60, joint=True, control_symbols=symbols)
    torch.manual_seed(3)
    network = build_model(tiny_model("transformer").config, src_vocab=60, tgt_vocab=60, joint=True)
    model = Translator(network, tokenizer, src_lang="en", tgt_lang="de")

    def tags(translator: Translator, tag: str | None = None) -> list[str]:
        pieces = translator.attend(LINES[0], LINES[1], tag=tag)[0].src_pieces
        return [piece for piece in pieces if piece in symbols]

    assert tags(model) == ["<2de>"]
    assert tags(model, "<crawl>") == tags(model, "crawl") == tags(model.with_tag("crawl")) == ["<2de>", "<crawl>"]
    assert tags(model.with_tag("crawl").in_direction("de-en")) == ["<2en>", "<crawl>"]
    assert tags(model.in_direction("de-en"), "BT") == tags(model.with_tag("crawl").in_direction("en"), "BT")
    assert tags(model.with_tag("crawl"), "BT") == ["<2de>", "<BT>"]
    tagged = model.with_tag("BT")
    assert model.translate(LINES, tag="BT") == tagged.translate(LINES)
    assert tagged.score(LINES, LINES) != model.score(LINES, LINES)
    with pytest.raises(
        HeedError, match=r"^tag=bt is not a tag of this model's training texts: it has <crawl>, <BT>\.$"
    ):
        model.translate(LINES, tag="bt")
    with pytest.raises(HeedError, match="it has none"):
        Translator(network, train_tokenizer(LINES, vocab_size=60, joint=True)).with_tag("crawl")


def test_directions_are_found_by_all_codes_of_their_languages(tiny_model: Callable[..., Seq2Seq]) -> None:
    tokenizer = train_tokenizer(LINES, vocab_size=60)
    network = tiny_model("rnn", src_vocab=60, tgt_vocab=60)
    known = [("en", "zh_Hans"), ("en", "zh-Hant"), ("de_AT", "en")]
    translator = Translator(network, tokenizer, src_lang="en", tgt_lang="zh_Hans", directions=known)
    names = {
        "en-zh_Hans": ("zh", "zh_Hans", "zh-Hans", "zh-CN", "en-zh_CN", "en-zh-CN", "eng-cmn_Hans"),
        "en-zh-Hant": ("en-zh-Hant", "zh-Hant", "zh_TW", "zh-TW", "eng_Latn-zho_Hant"),
        "de_AT-en": ("de-en", "deu_Latn_AT-eng", "en"),
    }
    assert {name: translator.in_direction(name).directions[0] for each in names.values() for name in each} == {
        name: direction for direction, each in names.items() for name in each
    }
    with pytest.raises(HeedError, match=r"direction=de_CH-en is not"):
        translator.in_direction("de_CH-en")


def test_unknown_directions_are_one_sentence(folder: Path, tiny_model: Callable[..., Seq2Seq]) -> None:
    with pytest.raises(HeedError, match=r"direction=fr-en is not .* it has en-de, de-en\.$"):
        heed.load(folder, direction="fr-en")
    tokenizer = train_tokenizer(LINES, vocab_size=60)
    single = Translator(tiny_model("rnn", src_vocab=60, tgt_vocab=60), tokenizer, src_lang="en", tgt_lang="de")
    with pytest.raises(HeedError, match=r"it has en-de\.$"):
        single.in_direction("de-en")
    with pytest.raises(HeedError, match=r"direction=de-fr is not"):
        single.in_direction("de-fr")


@pytest.mark.parametrize("code", ["de", "de_AT", "de-AT"])
def test_regional_codes_have_the_rules_of_their_language(code: str) -> None:
    line = "Am 3. Oktober war es kalt."
    assert sentence_rules(code)(line) == [line] != sentence_rules("en")(line)
