"""``heed compare``: verdicts on runs with made-up translations and on trained runs."""

import html
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grammar.corpus import challenge, generate

import heed
from heed.cli import main
from heed.evaluation.buckets import WORD_COUNTS, count_words, write_counts
from heed.evaluation.metrics import METRICS
from heed.evaluation.scores import SystemOutput
from heed.evaluation.words import casefolded_words
from tests import forkserver
from tests.cli.models import Heed, Refused
from tests.report.html import Page

EXAMPLES = generate(seed=5, train=200, valid=1, test=150, long=1)
BLEU = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
CHRF = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0"

TINY = [
    "data.train=300", "data.valid=20", "data.test=30", "data.long=3", "search=greedy", "trainer.accelerator=cpu",
    "trainer.max_epochs=null", "trainer.max_steps=12", "trainer.validate_every=12", "batching.batch_tokens=200",
    "callbacks.attention_maps=null",
]  # fmt: skip
TINY_MODELS = {
    "rnn": ["model=rnn", "model.d_embedding=32", "model.d_model=32"],
    "transformer": ["model=transformer", "model.d_model=32", "model.d_ff=64", "model.num_heads=2"],
}


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """``make_run(name, rate)``: a finished run whose translations lack words with probability ``rate``."""

    def made(name: str, rate: float, *, seed: int = 1, **results: Any) -> Path:
        run = tmp_path / name
        (run / "translations").mkdir(parents=True)
        rng = np.random.default_rng(seed)
        test = EXAMPLES["test"]
        lines = {
            "src": [example.src for example in test],
            "ref": [example.tgt for example in test],
            "hyp": [" ".join(w for w in example.tgt.split() if rng.random() > rate) for example in test],
            "meta.jsonl": [json.dumps({"tag": example.tag}) for example in test],
        }
        for suffix, column in lines.items():
            (run / "translations" / f"test.{suffix}").write_text("".join(f"{line}\n" for line in column))
        vocabulary = {word for src in lines["src"] for word in casefolded_words(src)}
        counts = count_words((example.src for example in EXAMPLES["train"]), vocabulary)
        write_counts(run / "translations" / WORD_COUNTS, counts)
        facts = {
            "name": name, "model": "rnn", "data": "synthetic", "src_lang": "en", "tgt_lang": "de", "seed": seed,
            "params": 1_000_000, "steps": 100, "epochs": 1.0, "tokens": 50_000, "train_seconds": 60.0,
            "tokens_per_second": 900.0, "device": "1 × cpu, 32-true", "search": {"beam": 5, "length_penalty": 0.6},
            "decode_seconds": {"test": 3.0}, "weights": "best", "git": None, "data_digest": "aaaa",
            "tokenizer_digest": "bbbb", "valid": {"bleu_signature": BLEU, "chrf_signature": CHRF},
            "tests": {"test": {}}, **results,
        }  # fmt: skip
        (run / "results.json").write_text(json.dumps(facts))
        (run / "config.yaml").write_text(f"seed: {seed}\n")
        return run

    return made


def compare(out: Path, *arguments: str | Path) -> dict[str, Any]:
    assert main(["compare", *map(str, arguments), "--out", str(out)]) == 0
    return json.loads((out / "compare.json").read_text())


def test_verdict_names_the_better_run(
    make_run: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worse, better = make_run("rnn", 0.3), make_run("transformer", 0.1, seed=2, params=1_800_000)
    found = compare(tmp_path / "out", worse, better)
    verdict = found["verdict"][0]
    pattern = (
        r"transformer is better than rnn: \+\d+\.\d BLEU \[\d+\.\d, \d+\.\d\], p < 0\.001, "
        r"one seed each; 1\.8× the parameters\."
    )
    assert re.fullmatch(pattern, verdict)
    out = capsys.readouterr().out
    assert out.startswith(verdict)
    assert out.endswith(f"Page: {tmp_path / 'out' / 'index.html'}\n")
    assert found["warnings"] == ["One seed each: the variance over seeds is unknown."]
    assert [fact["name"] for fact in found["facts"] if not fact["equal"]] == ["Parameters"]
    for side, run in zip(found["sides"], (worse, better), strict=True):
        command = [sys.executable, "-m", "sacrebleu", "test.ref", "-i", "test.hyp", "-m", "bleu", "chrf", "-w", "8"]
        folder = run / "translations"
        answer = json.loads(forkserver.run(command, cwd=folder, capture_output=True, check=True).stdout)
        for metric, theirs in zip(("BLEU", "chrF"), answer, strict=True):
            assert side["scores"][metric]["mean"] == pytest.approx(theirs["score"], abs=1e-6)
            assert found["signatures"][metric] == theirs["signature"]
    titles = [bucketing["title"] for bucketing in found["bucketings"]]
    assert {"Source length", "Phenomenon", "Rare words"} <= {*titles}
    for bucketing in found["bucketings"]:
        assert sum(bucket["sentences"] for bucket in bucketing["buckets"]) == 150


def test_further_metrics_are_compared(make_run: Callable[..., Path], tmp_path: Path, refused: Refused) -> None:
    runs = [make_run("a", 0.3), make_run("b", 0.1)]
    found = compare(tmp_path / "out", *runs, "--metrics", "ter,length-ratio")
    for side, run in zip(found["sides"], runs, strict=True):
        lines = [(run / "translations" / f"test.{name}").read_text().split("\n")[:-1] for name in ("hyp", "ref")]
        expected = METRICS["TER"](SystemOutput(hypotheses=lines[0], references=[lines[1]], tgt_lang="de"))
        assert side["metrics"]["TER"] == [pytest.approx(expected.value)]
        assert found["signatures"]["TER"] == expected.signature
    page = (tmp_path / "out" / "index.html").read_text()
    assert f"{found['sides'][0]['metrics']['length-ratio'][0]:.4f}" in page
    refused("compare", *runs, "--metrics", "perplexity", "--out", tmp_path / "other")  # the runs have no models


def test_a_table_is_all_of_standard_output(make_run: Callable[..., Path], tmp_path: Path, heed_cli: Heed) -> None:
    runs = [make_run("a", 0.3), make_run("b", 0.1)]
    _, out, err = heed_cli("compare", *runs, "--table", "csv", "--out", tmp_path / "out")
    assert [line.partition(",")[0] for line in out.splitlines()] == ["", "a", "b"]
    assert "Page: " in err


def test_groups_have_a_standard_deviation_over_seeds(make_run: Callable[..., Path], tmp_path: Path) -> None:
    rnn = ",".join(str(make_run(f"r{seed}", 0.2, seed=seed)) for seed in (1, 2, 3))
    other = ",".join(str(make_run(f"t{seed}", 0.1, seed=seed)) for seed in (4, 5))
    found = compare(tmp_path / "out", "--group", f"rnn={rnn}", "--group", f"transformer={other}")
    expected = r"transformer is better than rnn: .* p < 0\.001, 2 and 3 seeds; same number of parameters"
    assert re.match(expected, found["verdict"][0])
    left, right = found["sides"]
    assert left["scores"]["BLEU"]["over_seeds"] == pytest.approx(np.std(left["scores_by_run"]["BLEU"], ddof=1))
    difference = found["pairs"][0]["differences"]["BLEU"]
    expected = np.mean(right["scores_by_run"]["BLEU"]) - np.mean(left["scores_by_run"]["BLEU"])
    assert difference["value"] == pytest.approx(expected)
    wide, narrow = (np.ptp(difference[key]) for key in ("interval", "over_sentences"))
    assert wide > narrow > 0


def test_the_verdict_covers_every_common_test_set(make_run: Callable[..., Path], tmp_path: Path) -> None:
    runs = [make_run(name, rate, tests={"test": {}, "long": {}}) for name, rate in (("rnn", 0.3), ("transformer", 0.1))]
    for run, other in (runs, runs[::-1]):
        for suffix in ("src", "ref"):
            shutil.copy(run / "translations" / f"test.{suffix}", run / "translations" / f"long.{suffix}")
        shutil.copy(other / "translations" / "test.hyp", run / "translations" / "long.hyp")
    found = compare(tmp_path / "out", *runs)
    first, second = found["verdict"]
    assert first.startswith("On test: transformer is better than rnn: +")
    assert second.startswith("On long: rnn is better than transformer: +")
    assert found["others"][0]["pairs"][0]["verdict"] in second
    text = " ".join(Page((tmp_path / "out" / "index.html").read_text(encoding="utf-8")).text.split())
    assert second in text
    assert "Everything below is about test." in text
    chosen = compare(tmp_path / "chosen", *runs, "--split", "test")
    assert [f"On test: {verdict}" for verdict in chosen["verdict"]] == [first]
    assert chosen["warnings"][0] == "The verdict is about test only, not about long."


def test_the_jobs_of_a_grid_that_differ_in_the_seed_alone_are_runs_of_one_system(
    make_run: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = tmp_path / "grid"
    for number, (model, seed) in enumerate((m, s) for m in ("rnn", "transformer") for s in (1, 2)):
        match = {"quantity": "params", "run": str(grid / "0_rnn") if number else None, "options": {}}
        run = make_run(f"grid/{number}_{model}", 0.1 * number, seed=seed, params=1_000_000 + number, match=match)
        (run / ".hydra").mkdir()
        overrides = [f"model={model}", f"seed={seed}", "trainer=cpu", f"match_to='{grid}'"]
        (run / ".hydra" / "overrides.yaml").write_text(json.dumps(overrides))
    shared = json.dumps(overrides[2:])
    (grid / "multirun.yaml").write_text(f"hydra: {{overrides: {{task: {shared}}}}}")
    for suffix in ("txt", "svg", "pdf"):
        (grid / f"sweep.{suffix}").touch()
    found = compare(tmp_path / "out", grid)
    assert [(side["name"], side["seeds"]) for side in found["sides"]] == [
        ("rnn", [1, 2]), ("transformer", [1, 2])
    ]  # fmt: skip
    assert found["match"] == "Parameters: rnn 1,000,000, transformer 1,000,002; matched: parameters."
    assert f"\n  {found['match']}\n" in capsys.readouterr().out
    assert found["match"] in (tmp_path / "out" / "index.html").read_text()
    assert len(compare(tmp_path / "out", *sorted(grid.iterdir()))["sides"]) == 4  # as the shell expands grid/*
    failed = grid / "3_transformer"
    (failed / "results.json").unlink()
    found = compare(tmp_path / "out", grid)
    assert [side["seeds"] for side in found["sides"]] == [[1, 2], [1]]
    assert f"{failed} is left out, because it is not finished." in found["warnings"]


def test_jobs_of_different_grids_are_different_systems(make_run: Callable[..., Path], tmp_path: Path) -> None:
    grids = [tmp_path / name for name in ("first", "second")]
    for number, grid in enumerate(grids):
        run = make_run(f"{grid.name}/0_rnn", 0.1 * (number + 1))
        (run / ".hydra").mkdir()
        (run / ".hydra" / "overrides.yaml").write_text('["model=rnn"]')
        (grid / "multirun.yaml").write_text("hydra: {overrides: {task: []}}")
    sides = compare(tmp_path / "out", *grids)["sides"]
    assert [side["name"] for side in sides] == ["rnn/first", "rnn/second"]


def test_each_test_set_is_scored_in_its_own_language(make_run: Callable[..., Path], tmp_path: Path) -> None:
    runs = [make_run(name, rate, directions={"test": ["de", "zh"]}) for name, rate in (("a", 0.1), ("b", 0.3))]
    assert "tok:zh" in compare(tmp_path / "out", *runs)["signatures"]["BLEU"]


def test_a_comparison_in_python(make_run: Callable[..., Path]) -> None:
    runs = [make_run("a", 0.1), make_run("b", 0.3, seed=2)]
    found = heed.compare(runs)
    assert repr(found).startswith("a is better than b")
    assert "\n  Parameters: a 1,000,000, b 1,000,000; nothing was matched." in repr(found)
    frame = found._repr_html_()
    page = html.unescape(re.search('srcdoc="([^"]*)"', frame)[1])  # type: ignore[index]
    assert "a is better than b" in Page(page).text
    named = heed.compare({"x": str(runs[0]), "y": [heed.TrainedRun(runs[1])]})
    assert [side.name for side in named.comparison.sides] == ["x", "y"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{a}"], "two or more runs"),
        (["{a}", "{tmp}/nowhere"], "There is no folder"),
        (["{a}", "{a}/translations"], "is not a finished run"),
        (["{a}", "{a}"], "named 2 times"),
        (["{a}", "{b}", "--split", "dev"], "It has translations of test: choose with --split"),
        (["{a}", "{tmp}"], "is not a run or grid but holds some: choose one, such as"),
        (["{a}", "{empty}"], "It has no translations"),
        (["{a}", "{short}"], "test.hyp has 149 lines where 150 are expected"),
        (["{a}", "{other}"], "line 3 of their test.ref differs"),
        (["{a}", "{fewer}"], "did not translate the same test set: line 150 of their test.src differs"),
        (["{a}", "{b}", "--group", "x={a}", "y={b}"], "not both"),
        (["--group", "x={a}"], "two or more runs"),
        (["--group", "x={a}", "{b}"], "write NAME=RUN"),
        (["--group", "x={a}", "y={b},"], "write NAME=RUN"),
        (["--group", "x={a}", "x={b}"], "names x twice"),
        (["{a}", "{b}", "--challenge", "{tmp}/bad.jsonl"], "Line 2 of"),
        (["{a}", "{b}", "--challenge", "{tmp}/none.jsonl"], "cannot be read"),
        (["{a}", "{b}", "--out", "{tmp}/bad.jsonl"], "cannot be written"),
    ],
)
def test_errors_are_one_sentence(
    make_run: Callable[..., Path], tmp_path: Path, refused: Refused, arguments: list[str], message: str
) -> None:
    runs = {
        name: make_run(name, 0.2, seed=seed) for seed, name in enumerate(("a", "b", "empty", "short", "other", "fewer"))
    }
    shutil.rmtree(runs["empty"] / "translations")
    for run, suffix in (("short", "hyp"), ("other", "ref"), ("fewer", "src")):
        file = runs[run] / "translations" / f"test.{suffix}"
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join([*lines[:2], "x\n", *lines[3:]] if run == "other" else lines[:-1]))
    (tmp_path / "bad.jsonl").write_text('{"src": "a", "good": "b", "bad": "c", "tag": "d"}\n{"src": "a"}\n')
    filled = [argument.format(tmp=tmp_path, **runs) for argument in arguments]
    assert message in refused("compare", "--out", tmp_path / "out", *filled)


@pytest.mark.full
def test_copies_of_trained_runs(run: Callable[..., Path], tmp_path: Path) -> None:
    trained = [run(model, *TINY, *size) for model, size in TINY_MODELS.items()]
    copies = [Path(shutil.move(path, tmp_path / f"copied-{path.name}")) for path in trained]
    contrasts = tmp_path / "challenge.jsonl"
    contrasts.write_text("".join(json.dumps(c.record()) + "\n" for c in challenge(seed=1, per_tag=2)))
    found = compare(tmp_path / "out", *copies, "--challenge", contrasts)
    for side, copy in zip(found["sides"], copies, strict=True):
        results = json.loads((copy / "results.json").read_text())
        assert side["scores"]["BLEU"]["mean"] == pytest.approx(results["test"]["bleu"], abs=1e-6)
        assert side["scores"]["chrF"]["mean"] == pytest.approx(results["test"]["chrf"], abs=1e-6)
        (accuracy,) = found["challenge"][side["name"]]
        assert sum(tag["total"] for tag in accuracy.values()) == len(contrasts.read_text().splitlines())
    facts = {fact["name"]: fact for fact in found["facts"]}
    assert all(
        None not in facts[name]["values"] for name in ("Tokens seen", "Device", "Search", "Decoding, sentences/s")
    )
    assert facts["Tokens seen"]["equal"]
    assert "Rare words" in [bucketing["title"] for bucketing in found["bucketings"]]
    html = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    Page(html)
    assert html.count('<svg class="map"') == 2 * len(found["examples"]) > 0
