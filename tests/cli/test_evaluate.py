"""``heed evaluate`` compared with the sacrebleu program, and ``heed score`` with the Translator."""

import importlib.util
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from sacrebleu.metrics import BLEU, CHRF

from heed.decoding import BeamSearch
from heed.evaluation.metrics import METRICS
from heed.inference import model_folder
from heed.inference.loading import load
from heed.inference.translator import Translator
from tests import forkserver
from tests.cli.models import LINES as SOURCES
from tests.cli.models import SEARCH, Heed, Refused, TinyModel, save_model, write
from tests.evaluation.test_comet import VERSION, install_comet, save_comet
from tests.exchange.models import LINES, transformer, write_model

HYPOTHESES = ["Ein Mann fährt Rad.", "", "Ein Hund schläft!", "Zwei kinder spielen mit einem Ball im park."]
REFERENCES = [
    ["Ein Mann fährt Fahrrad.", "Oh.", "Der Hund schläft.", "Zwei Kinder spielen im Park mit einem roten Ball."],
    ["Ein Mann fährt mit dem Rad.", "", "Ein Hund schläft.", "Im Park spielen zwei Kinder Ball."],
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    lines = {"src": SOURCES, "hyp": HYPOTHESES, "ref": REFERENCES[0], "ref2": REFERENCES[1]}
    return {name: write(tmp_path / f"text.{name}", text) for name, text in lines.items()}


@pytest.fixture
def model(tmp_path: Path, tiny_model: TinyModel) -> Path:
    """A folder that holds a tiny model with random weights."""
    extra = {"search": SEARCH, "tgt_lang": "de"}
    text = [*SOURCES, *REFERENCES[0]]
    return save_model(tmp_path / "model", tiny_model, text=text, vocab_size=90, scale=2.0, **extra)


def sacrebleu(*references: Path, hyp: Path, options: list[str]) -> list[tuple[str, float, str]]:
    command = [sys.executable, "-m", "sacrebleu", *references, "-i", hyp, "-m", "bleu", "chrf", "ter", "-w", "10"]
    answer = forkserver.run([*command, *options], capture_output=True, check=True, timeout=60)
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


def test_empty_translations_are_scored_as_empty(heed: Heed, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", transformer(), seed=14)  # its beam search prefers empty translations
    text = write(tmp_path / "text", [*LINES, "5"])
    options = ("--model", model, "--src", text, "--ref", text, "--metrics", "chrf", "--json")
    assert json.loads(heed("evaluate", *options)[1])["scores"]["chrF"]["value"] == 0
    assert json.loads(heed("evaluate", *options, "--beam", 1)[1])["scores"]["chrF"]["value"] > 0


def test_translations_that_are_written_as_no_reference_is(files: dict[str, Path], heed: Heed, tmp_path: Path) -> None:
    marked = write(tmp_path / "marked", [f"{line} </s>" for line in HYPOTHESES])
    status, _, err = heed("evaluate", "--hyp", marked, "--ref", files["ref"])
    assert (status, err.count("\n")) == (0, 1)
    assert err.startswith("Scores may be wrong: 100% of the translations have HTML tags")


def test_scores_that_are_not_comparable_are_labelled(files: dict[str, Path], heed: Heed, tmp_path: Path) -> None:
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

    both = write(tmp_path / "both", [line.lower().replace(".", " .") for line in REFERENCES[0]])
    _, out, _ = heed("evaluate", "--hyp", files["hyp"], "--ref", both, "--lowercase")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["BLEU", "chrF", "TER"]
    assert "case:lc" in lines[0]
    reasons = "the references have no upper case; the references look tokenized"
    assert lines[3:] == [
        f"BLEU, chrF: not comparable with published scores: lower-cased; {reasons}",
        f"TER: not comparable with published scores: {reasons}",
    ]


def test_model_scores_are_those_of_its_translations(
    files: dict[str, Path], heed: Heed, model: Path, tmp_path: Path
) -> None:
    folder = model_folder.load(model)
    for options, changes in (([], {}), (["--beam", "1"], {"beam": 1})):
        translator = Translator(folder.model, folder.tokenizer, BeamSearch(**{**SEARCH, **changes}), batch_tokens=100)
        hyp = write(tmp_path / "translated", translator.translate(SOURCES))
        status, out, _ = heed("evaluate", "--model", model, "--src", files["src"], "--ref", files["ref"], *options)
        assert status == 0
        *scores, search = out.splitlines()
        assert scores == heed("evaluate", "--hyp", hyp, "--ref", files["ref"])[1].splitlines()
        assert search.startswith(f"Search: beam {({**SEARCH, **changes})['beam']}, length_penalty ")


def test_target_language_selects_the_tokenizer(files: dict[str, Path], heed: Heed, model: Path) -> None:
    config = yaml.safe_load((model / "config.yaml").read_text())
    (model / "config.yaml").write_text(yaml.safe_dump(config | {"tgt_lang": "zh"}))
    for options, tokenizer in (([], "tok:zh"), (["--tgt-lang", "de"], "tok:13a")):
        _, out, _ = heed("evaluate", "--model", model, "--src", files["src"], "--ref", files["ref"], *options)
        assert tokenizer in out


def test_all_metrics_that_can_be_computed(
    files: dict[str, Path], heed: Heed, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(files["src"].parent / "hub"))
    spm = model / "src.model"
    given = ("evaluate", "--ref", files["ref"], "--metrics", "all", "--spm", spm, "--json")
    status, out, err = heed(*given, "--model", model, "--src", files["src"])
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert {*found["scores"]} | {*found["not_computed"]} == {*METRICS}
    assert {*found["not_computed"]} <= {"COMET", "tokenized-BLEU", "on-target-language"}
    translator = load(model)
    nll, tokens = (
        -sum(translator.score(SOURCES, REFERENCES[0])),
        sum(len(ids) + 1 for ids in translator.tokenizer.encode_tgt(REFERENCES[0])),
    )
    assert found["scores"]["perplexity"]["value"] == pytest.approx(math.exp(nll / tokens), rel=1e-5)
    words = len(" ".join(REFERENCES[0]).split())
    assert found["scores"]["word-perplexity"]["value"] == pytest.approx(math.exp(nll / words), rel=1e-5)

    status, out, _ = heed(*given[:-1], "--hyp", files["hyp"])
    lacking = [line for line in out.splitlines() if "not computed" in line]
    assert {"perplexity", "word-perplexity", "COMET"} <= {line.split()[0] for line in lacking}


def test_metrics_are_chosen_by_name(files: dict[str, Path], heed: Heed) -> None:
    _, out, _ = heed("evaluate", "--hyp", files["hyp"], "--ref", files["ref"], "--metrics", "length-ratio,chrf++")
    assert [line.split()[0] for line in out.splitlines()] == ["length-ratio", "chrF++"]
    assert re.search(r"length-ratio +0\.\d{4} ", out)


def test_the_metrics_of_a_run_are_the_default(files: dict[str, Path], heed: Heed, model: Path) -> None:
    options = ["--src", files["src"], "--ref", files["ref"], "--json"]

    def computed(*more: Any) -> tuple[list[str], dict[str, str]]:
        status, out, err = heed("evaluate", model, *options, *more)
        assert status == 0, err
        found = json.loads(out)
        return [*found["scores"]], found.get("not_computed", {})

    assert computed() == (["BLEU", "chrF", "TER"], {})
    config = model.parent / "config.yaml"
    config.write_text("seed: 1\nmetrics: [chrf++, BLEU-2, mine, perplexity]\n")
    own = {"mine": "A metric of your own is computed in training only."}
    assert computed() == (["BLEU", "chrF", "chrF++", "BLEU-2", "perplexity"], own)
    assert computed("--metrics", "ter") == (["TER"], {})
    config.write_text("seed: 1\nmetrics: []\n")
    assert computed() == (["BLEU", "chrF", "TER"], {})


def test_the_metric_that_the_search_maximized_is_marked(files: dict[str, Path], heed: Heed, model: Path) -> None:
    search = ["--mbr", "--samples", 2, "--beam", 1, "--utility", "bleu"]
    _, out, _ = heed("evaluate", "--model", model, "--src", files["src"], "--ref", files["ref"], *search)
    reason = "BLEU is biased, because minimum Bayes risk search maximized it"
    assert out.splitlines()[3] == f"BLEU: not comparable with published scores: {reason}"
    assert out.splitlines()[4].startswith("Search: utility bleu, beam 1, length_penalty 0.6, ")


@pytest.mark.posix("the program of the tests is a script")
def test_comet_of_a_folder(files: dict[str, Path], heed: Heed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_comet(tmp_path, monkeypatch)
    folder = save_comet(tmp_path / "comet")
    given = ("evaluate", "--hyp", files["hyp"], "--ref", files["ref"], "--comet", folder)
    status, out, err = heed(*given, "--src", files["src"])
    assert (status, err) == (0, "")
    assert re.search(rf"COMET +-?\d\.\d{{4}}   nrefs:1\|model:{folder}\|unbabel-comet:{VERSION}", out)


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ("--hyp {hyp} --ref {short}", ["{hyp} has 4 lines and {short} 3"]),
        ("--hyp {hyp} --ref {ref} --ref {short}", ["{hyp} has 4 lines and {short} 3"]),
        ("--model {model} --src {short} --ref {ref}", ["{short} has 3 lines and {ref} 4"]),
        ("--hyp {empty} --ref {empty}", ["nothing to score"]),
        ("--hyp {latin} --ref {ref}", ["Line 1 of {latin} is not UTF-8"]),
        ("--hyp nowhere --ref {ref}", ["nowhere: No such file or directory."]),
        ("--ref {ref}", ["(RUN)", "--hyp FILE"]),
        ("--hyp {hyp} --model {model} --ref {ref}", ["either"]),
        ("--model {model} --ref {ref}", ["--model needs the source sentences: add --src FILE"]),
        ("--hyp {hyp} --ref {ref} --tokenize 14a", ["no tokenizer '14a'", "13a, intl"]),
        ("--hyp {hyp} --ref {ref} --metrics bleu,rouge", ["no metric 'rouge'", "choose from bleu, bleu-1, "]),
        ("--hyp {hyp} --ref {ref} --metrics perplexity", ["Perplexity needs the model"]),
        ("--hyp {hyp} --ref {ref} --metrics spbleu --spm {hyp}", ["{hyp} cannot be read as a SentencePiece model"]),
        ("--hyp {hyp} --ref {ref} --comet some/model", ["--comet needs the source sentences"]),
        ("--hyp {hyp} --ref {ref} --src {src} --comet {absent}", ["comet-score"]),
        pytest.param(
            "--hyp {hyp} --ref {ref} --tokenize ja-mecab",
            ["tokenizer ja-mecab needs MeCab"],
            marks=pytest.mark.skipif(importlib.util.find_spec("MeCab") is not None, reason="MeCab is installed"),
        ),
    ],
)
def test_errors_are_one_sentence(
    files: dict[str, Path], refused: Refused, model: Path, tmp_path: Path, options: str, messages: list[str]
) -> None:
    (tmp_path / "latin").write_bytes("fährt\n".encode("latin-1"))
    paths = {
        **files,
        "short": write(tmp_path / "short", SOURCES[:3]),
        "empty": write(tmp_path / "empty", []),
        "latin": tmp_path / "latin",
        "absent": tmp_path / "absent.ckpt",
        "model": model,
    }
    err = refused("evaluate", *options.format(**paths).split())
    for message in messages:
        assert message.format(**paths) in err


def test_scores_of_each_sentence_are_written_to_a_file(files: dict[str, Path], heed: Heed, tmp_path: Path) -> None:
    given = ("--hyp", files["hyp"], "--ref", files["ref"], "--ref", files["ref2"], "--metrics", "bleu,chrf,exact-match")
    status, out, err = heed("evaluate", *given, "--per-sentence", tmp_path / "scores.tsv")
    assert (status, err) == (0, "")
    assert out == heed("evaluate", *given)[1]
    header, *rows = [line.split("\t") for line in (tmp_path / "scores.tsv").read_text().splitlines()]
    assert header == ["BLEU", "chrF", "exact-match"]
    bleu, chrf = BLEU(effective_order=True), CHRF()
    for row, hyp, *refs in zip(rows, HYPOTHESES, *REFERENCES, strict=True):
        expected = [bleu.sentence_score(hyp, refs).score, chrf.sentence_score(hyp, refs).score, 100 * (hyp in refs)]
        assert row == [f"{score:.4f}" for score in expected]


def test_scores_of_each_sentence_of_a_model(files: dict[str, Path], heed: Heed, model: Path, tmp_path: Path) -> None:
    given = ("--model", model, "--src", files["src"], "--ref", files["ref"], "--metrics", "ter,perplexity")
    status, out, _ = heed("evaluate", *given, "--per-sentence", tmp_path / "scores.tsv")
    assert (status, [line.split()[0] for line in out.splitlines()[:2]]) == (0, ["TER", "perplexity"])
    lines = (tmp_path / "scores.tsv").read_text().splitlines()
    assert (lines[0], len(lines)) == ("TER", 1 + len(SOURCES))  # a perplexity is of the whole text


TARGETS = ["Ein Mann fährt Rad.", "Oh.", "", "Zwei Kinder."]


def test_scores_are_log_probabilities_of_the_pairs(
    tmp_path: Path, heed: Heed, refused: Refused, tiny_model: TinyModel
) -> None:
    folder = save_model(tmp_path / "model", tiny_model, text=[*SOURCES, *TARGETS], vocab_size=75)
    expected = load(folder, device="cpu").score(SOURCES, TARGETS)
    src, tgt = write(tmp_path / "src", SOURCES), write(tmp_path / "tgt", TARGETS)
    for model in (["--model", folder], [folder]):
        status, out, err = heed("score", *model, "--src", src, "--tgt", tgt, "--device", "cpu")
        assert (status, err) == (0, "")
        assert [float(line) for line in out.splitlines()] == pytest.approx(expected, abs=1e-5)
    short = write(tmp_path / "short", SOURCES[:2])
    assert f"{short} has 2 lines and {tgt} 4" in refused("score", folder, "--src", short, "--tgt", tgt)
