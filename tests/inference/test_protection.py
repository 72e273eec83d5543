"""Protected text: which spans are found, and that every translation contains them once."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from heed.characters import PROTECTED
from heed.data.pairs.tokenizer import Tokenizer
from heed.documents.document import split_document
from heed.errors import HeedError
from heed.inference.engine import Engine, TorchEngine
from heed.inference.protection import Copies, Masked
from heed.inference.translator import Translator
from heed.interventions.forcing import force, force_row
from heed.models.seq2seq import Seq2Seq
from heed.symbols import PLACEHOLDERS
from tests.tokenizers import train_tokenizer

SPANS = [
    "{name}", "${user}", "{{count}}", "%s", "%d", "%(n)d", "%1$s", "%.2f", "<br>", "<a href='x y'>", "</a>", "&nbsp;",
    "&#39;", "https://example.org/a?b=c", "www.example.org", "a.b@example.org", "B12", "COVID-19", "user_name", "3f9a",
    "v2.3.1", "😀", "👍🏽", "🇩🇪", "👨‍👩‍👧", "\ue003", "\uf8f0",
]  # fmt: skip
TEXT = ["the", "dog", "5km", "3.5", "50%", "1990s", "10", "a<b", "R&D", "e.g.", "100%", "U.S.", "12:30", "Hund", "20th"]
SHARED = ["dog {name} sleeps .", "{a}, a man", "a woman <br>reads 3 books ."]


@pytest.mark.parametrize("span", SPANS)
def test_a_span_is_found_as_it_is(span: str) -> None:
    assert PROTECTED.findall(f"the {span}, dog") == PROTECTED.findall(f"({span})") == [span]


@pytest.mark.parametrize("word", TEXT)
def test_numbers_with_units_and_ordinary_words_are_translated(word: str) -> None:
    assert PROTECTED.findall(f"the {word}, dog {word}. ({word})") == []


@given(st.lists(st.tuples(st.sampled_from(SPANS + TEXT), st.sampled_from(["", " ", ", ", " (", ") "])), max_size=16))
def test_masked_sentences_are_restored(parts: list[tuple[str, str]]) -> None:
    sentence = "".join(part + space for part, space in parts)
    assume(sum(map(sentence.count, PLACEHOLDERS)) <= len(PLACEHOLDERS))
    masked = Masked.of(sentence)
    assert masked.restored(masked.text) == sentence
    spans = PROTECTED.findall(sentence)
    assert len(masked.spans) == min(len(spans), len(PLACEHOLDERS))
    assert not Counter(masked.spans.values()) - Counter(spans)
    for char in masked.spans:  # a model reads words, and placeholders between them
        assert masked.text.count(char) == 1
        assert not re.search(rf"[^\W_]{char}|{char}[^\W_]", masked.text)


@pytest.mark.parametrize(
    ("sentence", "translation", "expected"),
    [
        ("Hello {name}.", "\ue000 hallo .", "{name} hallo ."),
        ("Hello {name}.", "hallo\ue000du", "hallo {name} du"),
        ("one<br>two", "eins \ue000 zwei", "eins<br>zwei"),
        ("one <br>two", "eins \ue000 zwei", "eins <br>zwei"),
        ("one.<br>Two", "eins. \ue000 Zwei", "eins.<br>Zwei"),
        ("{a}{b} x", "x \ue000 \ue001", "x {a}{b}"),
        ("{a} and {b}", "\ue001\ue000", "{b} {a}"),
        ("{a} x", "x \ue000 \ue007", "x {a} "),
    ],
)
def test_spans_have_the_spaces_of_the_source(sentence: str, translation: str, expected: str) -> None:
    assert Masked.of(sentence).restored(translation) == expected


# ---- the translator

LINES = ["the man rides a {bike} .", "the dog sleeps%s.", "{a}{b}, a woman", "42 {a} %d", "", "children play ."]
TEXTS = ["der Mann fährt Rad .", "der Hund schläft .", "eine Frau liest 3 Bücher .", "Kinder spielen ."]


def make(family: str, tiny_model: Callable[..., Seq2Seq], *, placeholders: bool) -> Translator:
    options: dict[str, Any] = {"user_defined_symbols": list(PLACEHOLDERS)} if placeholders else {}
    tokenizer = train_tokenizer([*LINES, *TEXTS], vocab_size=340, joint=True, byte_fallback=True, **options)
    torch.manual_seed(3)
    model = tiny_model(family, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    return Translator(model, tokenizer, src_lang="en", tgt_lang="de", batch_tokens=20)


@pytest.mark.parametrize("family", ["transformer", "rnn"])
@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"sample": True}, {"mbr": True, "samples": 3}], ids=str)
def test_each_span_is_in_the_translation_once(
    family: str, options: dict[str, Any], tiny_model: Callable[..., Seq2Seq]
) -> None:
    translator = make(family, tiny_model, placeholders=True)
    for line, text in zip(LINES, translator.translate(LINES, **options), strict=True):
        assert all(text.count(span) == 1 for span in PROTECTED.findall(line))
    assert translator.translate(LINES[3:5]) == LINES[3:5]  # nothing to translate
    (found,) = translator.translate(["{a} sleeps {b}"], prefix="der {b} ", **options)
    assert found.startswith("der {b}")
    assert found.count("{a}") == found.count("{b}") == 1
    for line, text in zip(LINES[:3], translator.translate(LINES[:3], prefix="der ", **options), strict=True):
        assert text.startswith("der ")
        assert all(text.count(span) == 1 for span in PROTECTED.findall(line))


def test_sentences_without_spans_are_translated_as_ever(tiny_model: Callable[..., Seq2Seq]) -> None:
    translator = make("transformer", tiny_model, placeholders=True)
    assert translator.translate(LINES)[5] == translator.translate(LINES, protect=False)[5]
    assert translator.without_fallbacks().translate(LINES) == translator.without_fallbacks().translate(
        LINES, protect=False
    )


def test_alignments_are_those_of_the_words_with_their_spans(tiny_model: Callable[..., Seq2Seq]) -> None:
    translator = make("transformer", tiny_model, placeholders=True)
    (found,) = translator.hypotheses(["the<br />dog {name} sleeps"], alignments=True)
    words = found[0].text.split()
    assert found[0].alignment
    assert {i for i, _ in found[0].alignment} <= {*range(4)}
    assert {j for _, j in found[0].alignment} <= {*range(len(words))}
    assert "<br />" in {piece for piece, _ in found[0].pieces}


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_a_model_without_placeholders_translates_the_text_between_the_spans(
    family: str, tiny_model: Callable[..., Seq2Seq]
) -> None:
    translator = make(family, tiny_model, placeholders=False)
    found = translator.hypotheses(LINES, protect=True, alignments=family == "transformer")
    for line, (each,) in zip(LINES, found, strict=True):
        assert PROTECTED.findall(each.text) == PROTECTED.findall(line)
        assert each.parts == len(PROTECTED.findall(line)) + 1
    assert found[0][0].text.startswith(translator.translate("the man rides a")[0].rstrip(" ."))
    assert found[5][0].text == translator.translate(LINES[5:])[0]
    assert translator.translate(LINES) == translator.translate(LINES, protect=False)
    with pytest.raises(HeedError, match="no placeholders"):
        translator.hypotheses(LINES, n=2, protect=True)
    with pytest.raises(HeedError, match="no placeholders"):
        translator.translate(LINES, prefix="der", protect=True)


def test_only_lines_with_spans_need_heeds_own_engine(tiny_model: Callable[..., Seq2Seq]) -> None:
    class Fast(TorchEngine):
        """An engine without constraints."""

        has_constraints = False

        def search(self, sources: Any, search: Any, constraints: Any = None) -> Any:
            assert constraints is None
            rows.extend(sources)
            return super().search(sources, search)

        ready = Engine.ready

    rows: list[list[int]] = []
    translator = make("transformer", tiny_model, placeholders=True)
    fast = translator.with_engine(Fast(translator.model))
    assert fast.translate(LINES) == translator.translate(LINES)
    assert {*map(tuple, rows)} == {*map(tuple, fast.encode(LINES[5:]))}


def test_an_export_does_not_protect_and_says_so_when_asked(tiny_model: Callable[..., Seq2Seq]) -> None:
    class Export(TorchEngine):
        """An engine without constraints, and no other one behind it."""

        has_constraints = False

        def check(self, search: Any, *, constrained: bool = False) -> None:
            if constrained:
                raise HeedError("Give the run.")

    translator = make("transformer", tiny_model, placeholders=True)
    export = Translator(Export(translator.model), translator.tokenizer, src_lang="en", tgt_lang="de")
    assert export.translate(LINES) == translator.translate(LINES, protect=False)
    for n in (None, 2):
        with pytest.raises(HeedError, match=r"Give the run\."):
            export.hypotheses(LINES, n=n, protect=True)


def test_a_placeholder_is_not_repeated_as_the_last_token_of_a_translation_that_is_cut_off() -> None:
    assert Copies([4, 5], frozenset()).forbidden(-1, 8).nonzero().flatten().tolist() == [4, 5]


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_attention_maps_are_those_of_the_protected_translation(family: str, tiny_model: Callable[..., Seq2Seq]) -> None:
    translator = make(family, tiny_model, placeholders=True)
    pairs = translator.attend(LINES)
    assert [pair.source for pair in pairs] == LINES
    assert [pair.target for pair in pairs] == translator.translate(LINES)
    assert "{bike}" in pairs[0].src_pieces
    assert "{bike}" in pairs[0].tgt_pieces
    for pair in pairs:
        assert pair.cross is not None
        assert pair.cross.shape[2:] == (len(pair.tgt_pieces), len(pair.src_pieces))
    plain = translator.attend(LINES, protect=False)
    assert [pair.target for pair in plain] == translator.translate(LINES, protect=False)
    with pytest.raises(HeedError, match="placeholders"):
        make(family, tiny_model, placeholders=False).attend(LINES, protect=True)


def test_the_words_before_a_forced_row_keep_their_placeholders(tiny_model: Callable[..., Seq2Seq]) -> None:
    translator = make("transformer", tiny_model, placeholders=True)
    line = "{a} sleeps {a} {b}"
    end = len(translator.attend(line)[0].tgt_pieces) - 1
    before, after = force(translator, line, force_row("cross", [end], [0]))
    assert after.tgt_ids[:end] == before.tgt_ids[:end]
    assert (after.target.count("{a}"), after.target.count("{b}")) == (2, 1)
    given, _ = force(translator, "{a} sleeps", ": Hund → sleeps", target="der Hund {a}")
    assert given.target == "der Hund {a}"


# ---- the tokenizer


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_placeholders_are_pieces_of_their_own(kind: str) -> None:
    options = {"model_type": kind, "user_defined_symbols": list(PLACEHOLDERS), "hard_vocab_limit": False}
    tokenizer = train_tokenizer([*LINES, *TEXTS] * 20, vocab_size=80, joint=True, **options)
    assert len(tokenizer.placeholders) == 10
    sentence = f"der {PLACEHOLDERS[3]}, Mann{PLACEHOLDERS[0]} {PLACEHOLDERS[9]}."
    (ids,) = tokenizer.encode_tgt([sentence])
    assert [id_ for id_ in ids if id_ in tokenizer.placeholders.values()] == [
        tokenizer.placeholders[PLACEHOLDERS[number]] for number in (3, 0, 9)
    ]
    assert tokenizer.decode_tgt([ids]) == [sentence]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_private_use_characters_of_a_text_are_no_placeholders(kind: str) -> None:
    texts = [f"{text} {''.join(PLACEHOLDERS)}" for text in TEXTS]
    options = {"model_type": kind, "hard_vocab_limit": False}
    assert not Tokenizer(train_tokenizer(texts * 20, vocab_size=80, joint=True, **options).models).placeholders


@pytest.mark.parametrize("protect", [None, False])
@pytest.mark.parametrize("placeholders", [True, False])
@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_kept_markup_of_documents_is_protected(
    family: str, placeholders: bool, protect: bool | None, tiny_model: Callable[..., Seq2Seq]
) -> None:
    translator = make(family, tiny_model, placeholders=placeholders)
    page = (
        '<p>the <b>man</b> rides<br>a bike . <img src="a"> the <i>dog <code>x</code></i> sleeps {a}.</p><p>42<br></p>'
    )
    document = split_document(page, "html", translator, by_rules=False)
    chosen = document.protection(protect)
    found = translator.hypotheses(document.sentences, protect=chosen, alignments=document.needs_alignments)
    (translated,) = document.versions(found, 1)
    tags = re.findall("<[^>]*>", page)
    assert sorted(re.findall(r"</?(?:p|b|i|br|img|code)\b[^>]*>", translated)) == sorted(tags)
    assert translated.count("{a}") == (protect is None)
    assert "<code>x</code>" in translated
