"""``heed translate``: the options for search, batching and ensembles, compared with the Translator."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heed.inference import model_folder
from heed.inference.loading import load
from heed.inference.translator import Translator
from tests.cli.models import LINES, SEARCH, Heed, TinyModel, save, save_model
from tests.exchange.models import transformer, write_run


@pytest.fixture
def run(tmp_path: Path, tiny_model: TinyModel) -> Path:
    """A run folder whose model/ is a tiny transformer with random weights."""
    return save_model(tmp_path / "run" / "model", tiny_model, scale=2.0, search=SEARCH).parent


@pytest.fixture
def translator(run: Path) -> Callable[..., Translator]:
    """``translator(**changes)``: a translator of the same model, with changes to its search."""

    def build(**changes: Any) -> Translator:
        folder = model_folder.load(run)
        return Translator(folder.model, folder.tokenizer, {**SEARCH, **changes}, batch_tokens=100)

    return build


@pytest.fixture
def translate(heed: Heed, run: Path, monkeypatch: pytest.MonkeyPatch) -> Heed:
    """``translate(*options, stdin=…)``: exit status, standard output and standard error."""

    def translated(*options: Any, stdin: bytes = "\n".join(LINES).encode(), model: Path = run) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return heed("translate", "--model", model, "--engine", "heed", *options)

    return translated


def test_run_and_model_folder_translate_alike(
    run: Path, translate: Heed, translator: Callable[..., Translator]
) -> None:
    expected = "".join(f"{line}\n" for line in translator().translate(LINES))
    text = "\n".join(LINES).encode()
    assert translate()[:2] == (0, expected)
    crlf = text.replace(b"\n", b"\r\n") + b"\r\n"
    assert translate("--batch-tokens", 7, stdin=crlf, model=run / "model")[:2] == (0, expected)


def test_options_change_the_saved_search(translate: Heed, translator: Callable[..., Translator]) -> None:
    assert translate("--beam", 1)[1].splitlines() == translator(beam=1).translate(LINES)
    ((first, second),) = translator().hypotheses(LINES[:1], n=2, length_penalty=0.0)
    assert translate("--n-best", 2, "--length-penalty", 0, stdin=LINES[0].encode())[1].splitlines() == [
        f"0 ||| {t.text} ||| {t.score:.4f}" for t in (first, second)
    ]


def test_sampling(run: Path, translate: Heed) -> None:
    settings: dict[str, Any] = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": 5}
    options = ["--sample"]
    options += [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    samples = load(run).hypotheses(LINES, n=2, sample=True, **settings)
    expected = [(str(i), t.text, t.score) for i, n_best in enumerate(samples) for t in n_best]
    printed = [line.split(" ||| ") for line in translate(*options, "--n-best", 2)[1].splitlines()]
    assert [(i, text, pytest.approx(float(score), abs=2e-4)) for i, text, score in printed] == expected

    reverse = translate(*options, "--batch-tokens", 9, stdin="\n".join(LINES[::-1]).encode())[1].splitlines()
    assert reverse[::-1] == translate(*options)[1].splitlines()
    assert translate(*options)[1] != translate(*options[:-1], 6)[1]


def test_several_models_are_an_ensemble(run: Path, translate: Heed, tmp_path: Path, tiny_model: TinyModel) -> None:
    tokenizer = model_folder.load(run).tokenizer
    model = tiny_model("rnn", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
    rnn = save(tmp_path / "rnn", model, tokenizer)
    expected = load(run, rnn, device="cpu").translate(LINES)
    assert translate("--model", rnn, "--device", "cpu")[:2] == (0, "".join(f"{line}\n" for line in expected))


@pytest.mark.parametrize("engine", ["heed", "ctranslate2"])
def test_a_tag_says_which_kind_of_text_it_is(translate: Heed, tmp_path: Path, engine: str) -> None:
    run = write_run(tmp_path / "tagged", transformer(), control_symbols=["<crawl>"])
    texts = load(run, device="cpu").translate(LINES, beam=1, tag="crawl")
    options = ["--beam", 1, "--engine", engine, "--device", "cpu"]
    for tag in ("crawl", "<crawl>"):
        assert translate(*options, "--tag", tag, model=run)[1].splitlines() == texts
    assert translate(*options, model=run)[1].splitlines() != texts
    status, out, err = translate(*options, "--tag", "news", model=run)
    assert (status, out) == (2, "")
    assert "heed: --tag news is not a tag of this model's training texts: it has <crawl>.\n" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "nowhere"], "There is no folder nowhere"),
        (["--beam", 0], "search.beam=0"),
        (["--beam", 1_000_000], "search.beam=1000000"),
        (["--n-best", 9], "search.n_best=9"),
        (["--batch-tokens", 0], "batch_tokens=0"),
        (["--max-tokens", 2], "Line 2 has 3 subwords, and the limit is 2"),
        (["--device", "moon"], "--device moon cannot be used"),
        (["--max-tokens", 2], "or raise the limit (--max-tokens)"),
        (["--length-penalty", "nan"], "search.length_penalty=nan must be a number in [0, 10] and finite"),
        (["--sample", "--temperature", "nan"], "search.temperature=nan must be a number > 0 and finite"),
        (["--sample", "--top-p", "nan"], "search.top_p=nan"),
        (["--sample", "--beam", 2], "--beam does not apply to sampling"),
        (["--sample", "--utility", "bleu"], "--utility applies to minimum Bayes risk decoding only: add --mbr."),
        (["--sample", "--mbr"], "--sample and --mbr are different searches: leave one of them out"),
        (["--temperature", 0.5], "--temperature applies to sampling only: add --sample"),
        (["--samples", 3], "--samples applies to minimum Bayes risk decoding only: add --mbr."),
        (["--mbr", "--samples", 1_000_000_000], "search.n_best=1000000000"),
        (["--mbr", "--beam", 1, "--samples", 0], "fewer than two candidates"),
    ],
)
def test_wrong_options_are_one_sentence(translate: Heed, options: list[Any], message: str) -> None:
    status, out, err = translate(*options, stdin=b"\na dog\n")
    assert (status, out, len(err.splitlines())) == (2, "", 1), err
    assert message in err
