"""Documents of sentences from the built-in vocabulary with random inline markup, and translations by hand."""

import gzip
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import heed
from heed.documents.document import Document, split_document, text_of
from heed.files import built_in_corpus
from heed.inference.outputs import Translation
from heed.inference.translator import Translator
from tests.conftest import RNN
from tests.exchange.models import transformer, write_model

TAGS = {
    "html": [("<b>", "</b>"), ('<a href="/x?a=1&amp;b=2">', "</a>"), ("<span translate='yes'>", "</span>")],
    "md": [("**", "**"), ("[", "](http://x.y)"), ("~~", "~~")],
}
KEPT = {
    "html": ["<br/>", "<code>a b</code>", "<img src='x'>", "<!-- c -->"],
    "md": ["`a b`", "![c](d)", "<http://x.y>"],
}


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return heed.load(write_model(tmp_path_factory.mktemp("model"), transformer()), device="cpu")


def sentences(count: int) -> list[list[str]]:
    with gzip.open(built_in_corpus() / "test.jsonl.gz", "rt", encoding="utf-8") as file:
        pairs = [json.loads(line) for _, line in zip(range(count), file, strict=False)]
    # Each word once, so that it can be found in the translation.
    return [list(dict.fromkeys(re.findall(r"\w+", pair["src"]))) for pair in pairs]


def marked(words: Sequence[str], kind: str, rng: random.Random) -> str:
    """Return words with nested elements around some of them, and kept markup between some."""

    def parts(words: Sequence[str], tags: list[tuple[str, str]]) -> str:
        found: list[str] = []
        while words:
            count = rng.randint(1, len(words))
            inner, words = words[:count], words[count:]
            if tags and rng.random() < 0.6:
                start, end = rng.choice(tags)
                found.append(start + parts(inner, [each for each in tags if each[0] != start]) + end)
            else:
                found += inner
            if words and rng.random() < 0.2:
                found.append(rng.choice(KEPT[kind]))
        return " ".join(found)

    return parts(words, TAGS[kind])


def markup(kind: str) -> str:
    """Return a pattern of all tags and kept markup of a kind."""
    return "|".join(map(re.escape, [*KEPT[kind], *(part for tags in TAGS[kind] for part in tags)]))


def contents(document: str, kind: str) -> list[tuple[str, list[str]]]:
    """Return the start tag of each element with the words in it, whatever their order."""
    opened: list[tuple[str, list[str]]] = []
    found = []
    for part in re.findall(rf"{markup(kind)}|\w+", document):
        if opened and (opened[-1][0], part) in TAGS[kind]:
            opened.pop()
        elif part in [start for start, _ in TAGS[kind]]:
            found.append((part, []))
            opened.append(found[-1])
        elif part not in KEPT[kind]:
            for _, words in opened:
                words.append(part.lower())
    assert not opened
    return sorted((start, sorted(words)) for start, words in found)


def translated(document: Document, order: Callable[[list[int]], list[int]]) -> tuple[str, str]:
    """Translate each sentence word by word into capitals; ``order`` has the source word of each word.

    Return the document, and its text.
    """
    n_best = []
    for sentence in document.sentences:
        words = sentence.split()
        chosen = order(list(range(len(words))))
        links = [(i, j) for j, i in enumerate(chosen)]
        text = " ".join(words[i].upper() for i in chosen)
        n_best.append([Translation(text, 0.0, 0.0, finished=True, alignment=links)])
    (found,) = document.versions(n_best, 1)
    return found, " ".join(each.text for (each,) in n_best)


ORDERS = {
    "same": lambda numbers: numbers,
    "reversed": lambda numbers: numbers[::-1],
    "rotated": lambda numbers: numbers[len(numbers) // 3 :] + numbers[: len(numbers) // 3],
}


@pytest.mark.parametrize("kind", ["html", "md"])
@pytest.mark.parametrize("order", ORDERS)
def test_markup_of_a_hundred_sentences(translator: Translator, kind: str, order: str) -> None:
    rng = random.Random(1)
    for words in sentences(100):
        source = f"{marked(words, kind, rng)}\n"
        document = split_document(source, kind, translator, by_rules=False)
        found, text = translated(document, ORDERS[order])
        assert re.sub(markup(kind), "", found).split() == [word for word in text.split() if word.isalnum()]
        assert sorted(re.findall(markup(kind), found)) == sorted(re.findall(markup(kind), source))
        if order == "same":
            assert found.lower() == source.lower()
        elif order == "reversed":  # the words of an element stay together
            assert contents(found, kind) == contents(source, kind)
        else:
            assert [tag for tag, _ in contents(found, kind)] == [tag for tag, _ in contents(source, kind)]


def test_an_element_goes_on_in_the_next_sentence(translator: Translator) -> None:
    document = split_document("<p>One <b>two. Three</b> four. <i>Five six.</i></p>", "html", translator, by_rules=True)
    assert document.sentences == ["One two.", "Three four.", "Five six."]
    found, _ = translated(document, ORDERS["same"])
    assert found == "<p>ONE <b>TWO. THREE</b> FOUR. <i>FIVE SIX.</i></p>"


def test_a_line_break_may_end_a_sentence(translator: Translator) -> None:
    document = split_document("<p>One two.<br>Three four.<br></p>", "html", translator, by_rules=True)
    assert document.sentences == ["One two.", "\uf8f0 Three four."]
    assert translated(document, ORDERS["same"])[0] == "<p>ONE TWO.<br>THREE FOUR.<br></p>"


@pytest.mark.parametrize(
    ("kind", "source", "found"),
    [
        ("html", "<p>One<br>two.</p>", "<p>TWO.<br>ONE</p>"),
        ("html", "<p>One <br/>\n  two</p>", "<p>TWO <br/>\n  ONE</p>"),
        ("html", "<p>One<br> <br>&nbsp;two<br><br>three</p>", "<p>THREE<br><br>TWO<br>&nbsp;<br> ONE</p>"),
        ("html", "<p>One <b>10&nbsp;000<br>two</b><br>three</p>", "<p>THREE<br><b>TWO<br>000 10</b> ONE</p>"),
        ("md", "One  \ntwo\n", "TWO  \nONE\n"),
        ("md", "One\\\ntwo.\n", "TWO.\\\nONE\n"),
    ],
)
def test_a_line_break_has_the_white_space_of_the_source(
    translator: Translator, kind: str, source: str, found: str
) -> None:
    document = split_document(source, kind, translator, by_rules=False)
    assert translated(document, ORDERS["same"])[0].lower() == source.lower()
    assert translated(document, ORDERS["reversed"])[0] == found


CUT = ["The", "big", "dog", "the cat", "a bird"]
HTML = "<p>The <b>big</b> dog<br>the cat <code>x</code> a bird</p>"


def test_markup_cuts_sentences_without_alignments(translator: Translator, tmp_path: Path) -> None:
    """As of an RNN without attention, an ensemble, an export, and languages without spaces."""
    model = heed.load(
        write_model(
            tmp_path / "rnn", replace(RNN, attention=replace(RNN.attention, score="none", input_feeding=False))
        ),
        device="cpu",
    )
    ensemble = heed.load(
        *[write_model(tmp_path / str(seed), transformer(), seed=seed) for seed in (1, 2)], device="cpu"
    )
    chinese = translator.in_direction(None)
    chinese.tgt_lang = "zh"
    for each in (model, ensemble, chinese):
        document = split_document(HTML, "html", each, by_rules=False)
        assert document.sentences == CUT
        assert not document.needs_alignments
        assert translated(document, ORDERS["same"])[0].lower() == HTML.lower()
    assert split_document(HTML, "html", translator, by_rules=False).sentences != CUT


def test_a_model_translates_and_aligns_a_document(translator: Translator) -> None:
    """The tags of the real thing: what the model says is noise, and each tag is there once."""
    source = '<h1>the <i>dog</i></h1>\n<p>a <b>cat <a href="x">sleeps</a></b> in the <u>house</u> &amp; runs</p>'
    document = split_document(source, "html", translator, by_rules=True)
    n_best = translator.hypotheses(document.sentences, alignments=document.needs_alignments)
    (found,) = document.versions(n_best, 1)
    tags = re.compile("<[^>]*>")
    assert sorted(tags.findall(found)) == sorted(tags.findall(source))
    assert tags.sub("", found).split() == " ".join(each.text for (each, *_) in n_best).replace("&", "&amp;").split()


def test_text_of_documents() -> None:
    assert text_of("<p title='x'>a <b>b</b><script>c</script>", "html").split() == ["a", "b"]
    assert text_of("# a **b** `c`\n", "md").split() == ["a", "b"]
    assert text_of("<p>", "text") == "<p>"
