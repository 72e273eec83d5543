"""``heed translate``: the options for search, batching and ensembles, compared with the Translator."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from heed.decoding import BeamSearch, SampleSearch
from heed.inference import model_folder
from heed.inference.translator import Translator
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import Seq2Seq
from tests.tokenizers import train_tokenizer

LINES = ["a man rides a bike .", "", "the dog sleeps .", "two children play with a red ball in the park ."]
SEARCH = {"beam": 3, "length_penalty": 0.6, "n_best": 1, "max_length_factor": 1.0, "max_length_extra": 3}

Heed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, tiny_model: Callable[..., Seq2Seq]) -> Path:
    """A run folder whose model/ is a tiny transformer with random weights."""
    tokenizer = train_tokenizer([*LINES, "größer ist schöner"], vocab_size=70)
    torch.manual_seed(3)
    model = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    model_folder.save(tmp_path / "run" / "model", model, tokenizer, extra={"search": SEARCH})
    return tmp_path / "run"


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
    ((first, second),) = translator().translate(LINES[:1], n_best=2, length_penalty=0.0)
    assert translate("--n-best", 2, "--length-penalty", 0, stdin=LINES[0].encode())[1].splitlines() == [
        f"0 ||| {t.text} ||| {t.score:.4f}" for t in (first, second)
    ]


def test_sampling(run: Path, translate: Heed) -> None:
    settings = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": 5}
    options = ["--sample"]
    options += [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    lengths = {name: SEARCH[name] for name in ("max_length_factor", "max_length_extra")}
    search = SampleSearch(**settings, **lengths, n_best=2)  # type: ignore[arg-type]
    folder = model_folder.load(run)
    samples = list(Translator(folder.model, folder.tokenizer, search, batch_tokens=64).stream(LINES, chunk=9))
    expected = [(str(i), t.text, t.score) for i, n_best in enumerate(samples) for t in n_best]
    status, out, _ = translate(*options, "--n-best", 2, "--batch-tokens", 64)
    assert status == 0
    printed = [line.split(" ||| ") for line in out.splitlines()]
    # `heed.kernels.packing` may compute products with another library.
    assert [(i, text, pytest.approx(float(score), abs=2e-4)) for i, text, score in printed] == expected

    reverse = translate(*options, "--batch-tokens", 9, stdin="\n".join(LINES[::-1]).encode())[1].splitlines()
    assert reverse[::-1] == translate(*options)[1].splitlines()
    assert translate(*options)[1] != translate(*options[:-1], 6)[1]


def test_several_models_are_an_ensemble(
    run: Path, translate: Heed, tmp_path: Path, tiny_model: Callable[..., Seq2Seq]
) -> None:
    folder = model_folder.load(run)
    vocabularies = {"src_vocab": folder.tokenizer.src_vocab, "tgt_vocab": folder.tokenizer.tgt_vocab}
    model_folder.save(tmp_path / "rnn", tiny_model("rnn", **vocabularies).float(), folder.tokenizer, extra={})
    members = [folder.model, model_folder.load(tmp_path / "rnn").model]
    expected = Translator(Ensemble(members), folder.tokenizer, BeamSearch(**SEARCH), batch_tokens=64).translate(LINES)
    both = ("--model", tmp_path / "rnn", "--device", "cpu")
    assert translate(*both)[:2] == (0, "".join(f"{line}\n" for line in expected))

    other = tiny_model("rnn", src_vocab=60, tgt_vocab=60).float()
    model_folder.save(tmp_path / "other", other, train_tokenizer(LINES, vocab_size=60), extra={})
    status, out, err = translate(*both, "--model", tmp_path / "other")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert f"{run} and {tmp_path / 'other'} have different vocabularies" in err


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
        (["--length-penalty", "inf"], "search.length_penalty=inf"),
        (["--sample", "--temperature", "nan"], "search.temperature=nan must be a number > 0 and finite"),
        (["--sample", "--temperature", 0], "search.temperature=0.0"),
        (["--sample", "--top-p", "nan"], "search.top_p=nan"),
        (["--sample", "--beam", 2], "--beam does not apply to sampling"),
        (["--sample", "--length-penalty", 0], "--length-penalty does not apply to sampling"),
        (["--sample", "--utility", "bleu"], "--utility applies to minimum Bayes risk decoding only: add --mbr."),
        (["--sample", "--mbr"], "--sample and --mbr are different searches: leave one of them out"),
        (["--temperature", 0.5], "--temperature applies to sampling only: add --sample"),
        (["--seed", 0], "--seed applies to sampling only"),
        (["--samples", 3], "--samples applies to minimum Bayes risk decoding only: add --mbr."),
        (["--mbr", "--samples", 1_000_000_000], "search.n_best=1000000000"),
        (["--mbr", "--beam", 1, "--samples", 0], "fewer than two candidates"),
    ],
)
def test_wrong_options_are_one_sentence(translate: Heed, options: list[Any], message: str) -> None:
    status, out, err = translate(*options, stdin=b"\na dog\n")
    assert (status, out, len(err.splitlines())) == (2, "", 1), err
    assert message in err


def test_damaged_models_are_one_sentence(run: Path, translate: Heed) -> None:
    weights = run / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    status, out, err = translate()
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert f"heed: {weights} is damaged or cut off" in err
