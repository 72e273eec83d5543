"""``heed evaluate`` against the sacrebleu program, ``heed score`` against teacher forcing, and sampled translations."""

import importlib.util
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece as spm
import torch
import yaml

from heed.cli import main
from heed.cli.common import build_search, search_settings
from heed.data.tokenizer import Tokenizer
from heed.decoding import BeamSearch, SampleSearch
from heed.errors import HeedError
from heed.inference import model_folder
from heed.inference.mbr import MBRSearch
from heed.inference.translator import Translator
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS, EOS, PAD, UNK

CONF = Path(__file__).parents[2] / "conf" / "search"
SOURCES = ["a man rides a bike .", "", "the dog sleeps .", "two children play with a red ball in the park ."]
HYPOTHESES = ["Ein Mann fährt Rad.", "", "Ein Hund schläft!", "Zwei kinder spielen mit einem Ball im park."]
REFERENCES = [
    ["Ein Mann fährt Fahrrad.", "Oh.", "Der Hund schläft.", "Zwei Kinder spielen im Park mit einem roten Ball."],
    ["Ein Mann fährt mit dem Rad.", "", "Ein Hund schläft.", "Im Park spielen zwei Kinder Ball."],
]
SEARCH = {"beam": 3, "length_penalty": 0.6, "n_best": 1, "max_length_factor": 1.0, "max_length_extra": 3}

Heed = Callable[..., tuple[int, str, str]]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    lines = {"src": SOURCES, "hyp": HYPOTHESES, "ref": REFERENCES[0], "ref2": REFERENCES[1]}
    return {name: write(tmp_path / f"text.{name}", text) for name, text in lines.items()}


@pytest.fixture
def heed(capsys: pytest.CaptureFixture[str]) -> Heed:
    """``heed(command, *options)``: exit status, what it printed, and what it complained of."""

    def run(*arguments: Any) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        return (status, *capsys.readouterr())

    return run


def tokenizer_of(vocab_size: int) -> Tokenizer:
    proto = io.BytesIO()
    ids = {"pad_id": PAD, "unk_id": UNK, "bos_id": BOS, "eos_id": EOS}
    lines = iter([*SOURCES, *REFERENCES[0]])
    spm.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=proto, model_type="bpe", vocab_size=vocab_size, minloglevel=2, **ids
    )
    return Tokenizer(proto.getvalue(), proto.getvalue())


@pytest.fixture
def model(tmp_path: Path, tiny_model: Callable[..., Seq2Seq]) -> Path:
    """A folder that holds a tiny model with random weights."""
    tokenizer = tokenizer_of(90)
    torch.manual_seed(3)
    net = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2.0)
    model_folder.save(tmp_path / "model", net, tokenizer, extra={"search": SEARCH, "tgt_lang": "de"})
    return tmp_path / "model"


def sacrebleu(*references: Path, hyp: Path, options: list[str]) -> list[tuple[str, float, str]]:
    command = [sys.executable, "-m", "sacrebleu", *references, "-i", hyp, "-m", "bleu", "chrf", "ter", "-w", "10"]
    answer = subprocess.run([*command, *options], capture_output=True, check=True, timeout=60)
    return [(entry["name"], entry["score"], entry["signature"]) for entry in json.loads(answer.stdout)]


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([], []),
        (["--lowercase", "--tokenize", "intl"], ["-lc", "--chrf-lowercase", "-tok", "intl"]),
        (["--tokenize", "none"], ["-tok", "none"]),
        (["--tgt-lang", "zh"], ["-tok", "zh", "--ter-normalized", "--ter-asian-support"]),
    ],
)
def test_equals_sacrebleu(files: dict[str, Path], heed: Heed, second: bool, ours: list[str], theirs: list[str]) -> None:
    references = [files["ref"], files["ref2"]] if second else [files["ref"]]
    given = [part for path in references for part in ("--ref", path)]
    status, out, err = heed("evaluate", "--hyp", files["hyp"], *given, *ours, "--json")
    assert (status, err) == (0, "")
    scores = json.loads(out)["scores"]
    expected = sacrebleu(*references, hyp=files["hyp"], options=theirs)
    assert list(scores) == ["BLEU", "chrF", "TER"]
    for score, (_, value, signature) in zip(scores.values(), expected, strict=True):
        assert score["value"] == pytest.approx(value, abs=1e-9)
        assert score["signature"] == signature


def test_scores_that_may_not_be_compared_say_so(files: dict[str, Path], heed: Heed, tmp_path: Path) -> None:
    def labels(*options: Any, ref: Path = files["ref"]) -> list[str | None]:
        _, out, _ = heed("evaluate", "--hyp", files["hyp"], "--ref", ref, *options, "--json")
        return [score["not_comparable"] for score in json.loads(out)["scores"].values()]

    assert labels() == labels("--tokenize", "13a") == [None, None, None]
    assert labels("--lowercase") == ["lower-cased", "lower-cased", None]
    assert labels("--tokenize", "none") == ["words split by tokenizer none, not 13a", None, None]
    assert labels("--tokenize", "zh", "--tgt-lang", "zh") == [None, None, None]
    small = write(tmp_path / "small", [line.lower() for line in REFERENCES[0]])
    assert labels(ref=small) == ["the references have no upper case"] * 3
    cut = write(tmp_path / "cut", [line.replace(".", " .") for line in REFERENCES[0]])
    assert labels("--lowercase", ref=cut)[0] == "lower-cased; the references look tokenized"

    _, out, _ = heed("evaluate", "--hyp", files["hyp"], "--ref", files["ref"], "--lowercase")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["BLEU", "not", "chrF", "not", "TER"]
    assert "case:lc" in lines[0]
    assert "not comparable with published scores: lower-cased" in lines[1]


def test_a_model_is_scored_by_what_it_translates(
    files: dict[str, Path], heed: Heed, model: Path, tmp_path: Path
) -> None:
    folder = model_folder.load(model)
    for options, changes in (([], {}), (["--beam", "1"], {"beam": 1})):
        translator = Translator(folder.model, folder.tokenizer, BeamSearch(**{**SEARCH, **changes}), batch_tokens=100)
        hyp = write(tmp_path / "translated", translator.translate(SOURCES))
        by_model = heed("evaluate", "--model", model, "--src", files["src"], "--ref", files["ref"], *options)
        assert by_model[0] == 0
        assert by_model == heed("evaluate", "--hyp", hyp, "--ref", files["ref"])


def test_the_language_of_the_model_chooses_the_tokenizer(files: dict[str, Path], heed: Heed, model: Path) -> None:
    config = yaml.safe_load((model / "config.yaml").read_text())
    (model / "config.yaml").write_text(yaml.safe_dump(config | {"tgt_lang": "zh"}))
    for options, tokenizer in (([], "tok:zh"), (["--tgt-lang", "de"], "tok:13a")):
        _, out, _ = heed("evaluate", "--model", model, "--src", files["src"], "--ref", files["ref"], *options)
        assert tokenizer in out


def test_what_cannot_be_evaluated_is_a_sentence(
    files: dict[str, Path], heed: Heed, model: Path, tmp_path: Path
) -> None:
    short, empty = write(tmp_path / "short", SOURCES[:3]), write(tmp_path / "empty", [])
    latin = tmp_path / "latin"
    latin.write_bytes("fährt\n".encode("latin-1"))
    hyp, ref = ("--hyp", files["hyp"]), ("--ref", files["ref"])
    cases: list[tuple[tuple[Any, ...], list[str]]] = [
        ((*hyp, "--ref", short), [f"{files['hyp']} has 4 lines and {short} 3"]),
        ((*hyp, *ref, "--ref", short), [f"{files['hyp']} has 4 lines and {short} 3"]),
        (("--model", model, "--src", short, *ref), [f"{short} has 3 lines and {files['ref']} 4"]),
        (("--hyp", empty, "--ref", empty), ["nothing to score"]),
        (("--hyp", latin, *ref), [f"Line 1 of {latin} is not UTF-8"]),
        (("--hyp", tmp_path / "nowhere", *ref), ["nowhere cannot be read"]),
        (ref, ["--model DIR", "--hyp FILE"]),
        ((*hyp, "--model", model, *ref), ["either"]),
        (("--model", model, *ref), ["--model needs the source sentences: add --src FILE"]),
        ((*hyp, *ref, "--tokenize", "14a"), ["no tokenizer '14a'", "13a, intl"]),
        ((*hyp, *ref, "--comet", "some/model"), ["--comet needs the source sentences"]),
    ]
    if importlib.util.find_spec("MeCab") is None:
        cases.append(((*hyp, *ref, "--tokenize", "ja-mecab"), ["tokenizer ja-mecab cannot be used"]))
    source = ("--src", files["src"], "--comet", tmp_path / "absent.ckpt")
    missing = "pip install 'heed[comet]'" if importlib.util.find_spec("comet") is None else "absent.ckpt"
    cases.append(((*hyp, *ref, *source), [missing]))
    for arguments, words in cases:
        status, out, err = heed("evaluate", *arguments)
        assert (status, out, len(err.splitlines())) == (2, "", 1), err
        for word in words:
            assert word in err


def test_score_is_the_log_probability_of_every_pair(files: dict[str, Path], heed: Heed, model: Path) -> None:
    status, out, err = heed("score", "--model", model, "--src", files["src"], "--tgt", files["ref"])
    assert (status, err) == (0, "")
    folder = model_folder.load(model)
    expected = []
    for source, target in zip(SOURCES, REFERENCES[0], strict=True):
        src = torch.tensor([[*folder.tokenizer.encode_src([source])[0], EOS]])
        (tgt,) = folder.tokenizer.encode_tgt([target])
        with torch.no_grad():
            logits = folder.model(src, torch.ones_like(src, dtype=torch.bool), torch.tensor([[BOS, *tgt]]))
        expected.append(logits.log_softmax(2)[0, range(len(tgt) + 1), [*tgt, EOS]].sum().item())
    assert [float(line) for line in out.splitlines()] == pytest.approx(expected, abs=1e-4)
    short = write(files["src"].parent / "short", SOURCES[:2])
    status, out, err = heed("score", "--model", model, "--src", short, "--tgt", files["ref"])
    assert (status, out) == (2, "")
    assert f"{short} has 2 lines and {files['ref']} 4" in err


def test_sampled_translations(model: Path, heed: Heed, monkeypatch: pytest.MonkeyPatch) -> None:
    def translate(*options: Any, lines: list[str] = SOURCES) -> list[str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
        status, out, err = heed("translate", "--model", model, "--sample", *options)
        assert (status, err) == (0, "")
        return out.splitlines()

    folder = model_folder.load(model)
    cut = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": 5}
    lengths = {name: SEARCH[name] for name in ("max_length_factor", "max_length_extra")}
    search = SampleSearch(**cut, **lengths, n_best=2)  # type: ignore[arg-type]
    options = [part for name, value in cut.items() for part in (f"--{name.replace('_', '-')}", value)]
    drawn = Translator(folder.model, folder.tokenizer, search, batch_tokens=64).n_best(SOURCES)
    # The empty line has one translation, which is empty.
    expected = [(str(i), t.text, t.hypothesis.score) for i, n_best in enumerate(drawn) for t in n_best]
    told = [line.split(" ||| ") for line in translate(*options, "--n-best", 2, "--batch-tokens", 64)]
    # The program's products may be another library's: see `heed.kernels.packing`.
    assert [(i, text, pytest.approx(float(score), abs=2e-4)) for i, text, score in told] == expected
    turned = translate(*options, "--batch-tokens", 9, lines=SOURCES[::-1])
    assert turned[::-1] == translate(*options) != translate(*options[:-1], 6)


def test_options_of_one_search_are_refused_by_the_other(model: Path, heed: Heed) -> None:
    for options, words in (
        (["--temperature", 0.5], "--temperature is for sampling: add --sample."),
        (["--seed", 0], "--seed is for sampling"),
        (["--sample", "--beam", 2], "--beam is for beam search and --sample draws"),
        (["--sample", "--length-penalty", 0], "--length-penalty is for beam search"),
        (["--sample", "--temperature", 0], "temperature=0.0"),
        (["--samples", 3], "--samples is for minimum Bayes risk: add --mbr."),
        (["--sample", "--utility", "bleu"], "--utility is for minimum Bayes risk"),
        (["--sample", "--mbr"], "leave one of them out"),
        (["--mbr", "--beam", 1, "--samples", 0], "leave no choice"),
    ):
        status, out, err = heed("translate", "--model", model, *options)
        assert (status, out, len(err.splitlines())) == (2, "", 1)
        assert words in err


def test_a_model_scored_by_sampling_goes_on_so() -> None:
    sample = yaml.safe_load((CONF / "sample.yaml").read_text()) | {"seed": 1}  # ${seed}, which train.yaml makes 1
    standard = {name: value for name, value in sample.items() if name != "_target_"}
    assert search_settings(None, sample=True) == standard
    saved = standard | {"temperature": 0.5, "seed": 9, "n_best": 4, "max_length_extra": 7}
    search = build_search(saved)
    assert isinstance(search, SampleSearch)
    assert vars(search) == vars(SampleSearch(**(saved | {"n_best": 1})))
    assert vars(build_search(saved, top_k=3)) == vars(SampleSearch(**(saved | {"n_best": 1, "top_k": 3})))
    beam = build_search(saved, beam=2)
    assert isinstance(beam, BeamSearch)
    assert (beam.beam, beam.max_length_extra) == (2, 7)
    assert isinstance(build_search(SEARCH, sample=False, seed=None), BeamSearch)
    with pytest.raises(HeedError, match="--top-p is for sampling"):
        build_search(SEARCH, sample=False, top_p=0.5)


def test_a_model_scored_by_least_risk_goes_on_so() -> None:
    mbr = yaml.safe_load((CONF / "mbr.yaml").read_text()) | {"seed": 1}
    standard = {name: value for name, value in mbr.items() if name != "_target_"}
    assert search_settings(None, mbr=True) == standard
    asked, saved, changed = build_search(SEARCH, mbr=True), build_search(standard), build_search(standard, samples=5)
    assert isinstance(asked, MBRSearch)
    assert isinstance(saved, MBRSearch)
    assert isinstance(changed, MBRSearch)
    assert asked.beam is not None
    assert (asked.beam.beam, asked.max_length_extra) == (SEARCH["beam"], SEARCH["max_length_extra"])
    assert [search.sampler.n_best for search in (asked, saved, changed) if search.sampler] == [32, 32, 5]
    assert isinstance(build_search(standard, beam=2), BeamSearch)
    assert isinstance(build_search(standard, sample=True), SampleSearch)


def test_several_models_translate_as_one(
    model: Path, heed: Heed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_model: Callable[..., Seq2Seq]
) -> None:
    folder = model_folder.load(model)
    vocabularies = {"src_vocab": folder.tokenizer.src_vocab, "tgt_vocab": folder.tokenizer.tgt_vocab}
    rnn = tiny_model("rnn", **vocabularies).float()
    model_folder.save(tmp_path / "rnn", rnn, folder.tokenizer, extra={})
    members = [folder.model, model_folder.load(tmp_path / "rnn").model]
    expected = Translator(Ensemble(members), folder.tokenizer, BeamSearch(**SEARCH), batch_tokens=64).translate(SOURCES)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(SOURCES).encode())))
    both = ("--model", model, "--model", tmp_path / "rnn")
    assert heed("translate", *both, "--device", "cpu") == (0, "".join(f"{line}\n" for line in expected), "")

    foreign = tiny_model("rnn", src_vocab=80, tgt_vocab=80).float()
    model_folder.save(tmp_path / "other", foreign, tokenizer_of(80), extra={})
    status, out, err = heed("translate", *both, "--model", tmp_path / "other")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert f"{model} and {tmp_path / 'other'} have different vocabularies" in err
