"""The rows of runs, finished or not, the tables of runs and of seeds, and the formats of tables."""

import csv
import io
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from heed.errors import HeedError
from heed.runs.config import GRID_FILE, OVERRIDES
from heed.runs.table import COLUMNS, format_table, read_runs, runs_table, seed_table, sort_runs

HEADER = "step,epoch,lr,loss,nll,grad_norm,valid_loss,valid_bleu,valid_chrf\n"


def write_run(folder: Path, *, overrides: list[str] | None = None, **files: str) -> None:
    folder.mkdir(parents=True)
    if "failure_txt" not in files:
        (folder / "config.yaml").write_text("name: x\n")
    if overrides is not None:
        (folder / ".hydra").mkdir()
        (folder / OVERRIDES).write_text(yaml.safe_dump(overrides))
        # Hydra's folder also has a config.yaml but is not a run.
        (folder / ".hydra" / "config.yaml").write_text("name: x\n")
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)


def results(*, bleu: float, tested: bool = True, **facts: Any) -> str:
    scores = {"bleu": bleu, "chrf": 2 * bleu, "loss": 3 - bleu / 100}
    defaults = {"name": "x", "model": "rnn", "data": "files", "seed": 1, "params": 1_234_567, "steps": 1000,
                "epochs": 2.5, "train_seconds": 90.0, "tokens_per_second": 100.0, "weights": "best",
                "git": None}  # fmt: skip
    test = {key: value + 1 for key, value in scores.items()} if tested else None
    return json.dumps({**defaults, **facts, "valid": scores, "test": test})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    write_run(folder / "a" / "1", results_json=results(bleu=20.0))
    # A model folder also has a config.yaml but is not a run.
    write_run(folder / "a" / "1" / "model")
    write_run(folder / "a" / "2", metrics_csv=f"{HEADER}20,0,1,2,2,1,,,\n40,0,,,,,1.5,12.25,30\n60,0,,,,,1.4,11,30\n")
    write_run(folder / "a" / "3")
    for number, (seed, bleu) in enumerate([(1, 31.5), (2, 30.25)] + [(3, 1.0)] * 9):
        write_run(
            folder / "b" / "1" / f"{number}_rnn",
            overrides=["model=rnn", f"seed={seed}"],
            results_json=results(bleu=bleu, tested=False),
        )
    (folder / "b" / "1" / GRID_FILE).touch()
    write_run(
        folder / "b" / "1" / "11_rnn", overrides=["model=rnn", "seed=x"], failure_txt="seed is x\n\nTraceback …\n"
    )
    return folder


def test_rows_of_finished_unfinished_and_failed_runs(runs: Path) -> None:
    rows = {row["run"]: row for row in read_runs(runs)}
    assert len(rows) == 15
    assert rows["a/1"]["state"] == ""
    assert (rows["a/1"]["test_bleu"], rows["a/1"]["valid_bleu"], rows["a/1"]["minutes"]) == (21.0, 20.0, 1.5)
    # The last step and the best validation score so far.
    assert (rows["a/2"]["state"], rows["a/2"]["steps"], rows["a/2"]["valid_bleu"]) == ("interrupted", 60, 12.25)
    assert (rows["a/3"]["state"], rows["a/3"]["steps"]) == ("interrupted", None)
    assert rows["b/1/11_rnn"]["state"] == "failed: seed is x"
    # Overrides that all jobs of a sweep have in common are not shown.
    assert rows["b/1/0_rnn"]["settings"] == "seed=1"
    assert rows["a/1"]["settings"] == ""


def test_sorting(runs: Path) -> None:
    rows = read_runs(runs)
    by_bleu = [row["run"] for row in sort_runs(rows, "valid_bleu")]
    assert by_bleu[:4] == ["b/1/0_rnn", "b/1/1_rnn", "a/1", "a/2"]
    assert set(by_bleu[-2:]) == {"a/3", "b/1/11_rnn"}
    assert sort_runs(rows, "valid_loss")[0]["run"] == "b/1/0_rnn"
    by_name = [row["run"] for row in sort_runs(rows, "run")]
    assert by_name.index("b/1/2_rnn") < by_name.index("b/1/10_rnn")
    with pytest.raises(HeedError, match="'blue': choose one of run, settings"):
        sort_runs(rows, "blue")


def test_table_is_aligned_and_omits_empty_columns(runs: Path) -> None:
    sweep = runs_table(sort_runs(read_runs(runs / "b"), "valid_bleu")[:2])
    assert sweep.splitlines() == [
        "run      seed  parameters  steps  minutes  valid BLEU   chrF   loss",
        "1/0_rnn  1      1,234,567  1,000      1.5       31.50  63.00  2.685",
        "1/1_rnn  2      1,234,567  1,000      1.5       30.25  60.50  2.697",
    ]
    everything = runs_table(read_runs(runs))
    assert "test BLEU" in everything
    assert "failed: seed is x" in everything


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeedError, match=r"nowhere holds no runs: `python train\.py` makes them"):
        read_runs(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "damaged",
    [
        '{"name"',
        "[]",
        "null",
        "[" * 200_000,
        results(bleu=1.0, params="x"),
        results(bleu=1.0, train_seconds=None),
        results(bleu=1.0, name=[1]),
        results(bleu=1.0).replace('"loss": 2.99', '"loss": []'),
    ],
)
def test_damaged_results_are_shown_in_the_table_with_the_other_runs(runs: Path, damaged: str) -> None:
    (runs / "a" / "1" / "results.json").write_text(damaged)
    rows = sort_runs(read_runs(runs), "test_bleu")
    states = {row["run"]: row["state"] for row in rows}
    assert (states["a/1"], states["b/1/0_rnn"]) == ("results.json cannot be read", "")
    assert "results.json cannot be read" in runs_table(rows)


@pytest.mark.parametrize("damaged", ["step\n", "a,b\n1,2\n", "step,valid_bleu\nx,y\n", "step,valid_bleu\n1\nx"])
def test_runs_with_damaged_metrics_are_in_the_table(runs: Path, damaged: str) -> None:
    (runs / "a" / "2" / "metrics.csv").write_text(damaged)
    assert "a/2" in runs_table(read_runs(runs))


def test_a_score_that_is_nan_is_none(runs: Path) -> None:
    (runs / "a" / "1" / "results.json").write_text(results(bleu=float("nan")))
    json.dumps(read_runs(runs), allow_nan=False)


def test_settings_of_single_runs_with_different_names(tmp_path: Path) -> None:
    for name, model in (("first", "rnn"), ("second", "transformer")):
        write_run(tmp_path / name / "now", overrides=[f"name={name}", f"model={model}", "data=synthetic"])
    assert {row["run"]: row["settings"] for row in read_runs(tmp_path)} == {
        "first/now": "model=rnn",
        "second/now": "model=transformer",
    }


def test_long_values_are_shortened_in_the_table_only(tmp_path: Path) -> None:
    paths = "[[/a/very/long/folder/of/corpora/train.en, /a/very/long/folder/of/corpora/train.de]]"
    write_run(tmp_path / "long", overrides=[f"data.train={paths}", "seed=1"])
    write_run(tmp_path / "short", overrides=["data.train=x", "seed=2"])
    rows = read_runs(tmp_path)
    assert rows[0]["settings"] == f"data.train={paths} seed=1"
    assert "data.train=[[/a/very/long/folder/of/corpora/train.…/of/corpora/train.de]] seed=1" in runs_table(rows)


def test_mean_and_deviation_over_seeds(tmp_path: Path) -> None:
    scores = {("rnn", 1): 20.0, ("rnn", 2): 22.0, ("rnn", 3): 24.0, ("transformer", 1): 30.0}
    for number, ((model, seed), bleu) in enumerate(scores.items()):
        finished = results(bleu=bleu, seed=seed, model=model)
        write_run(tmp_path / "g" / f"{number}_{model}", overrides=[f"model={model}", f"seed={seed}"],
                  results_json=finished)  # fmt: skip
    write_run(tmp_path / "g" / "4_rnn", overrides=["model=rnn", "seed=4"])  # unfinished
    assert seed_table(read_runs(tmp_path), tmp_path).splitlines() == [
        "runs  settings   seeds    valid BLEU     test BLEU",
        "g     model=rnn      3  22.00 ± 2.00  23.00 ± 2.00",
    ]


def test_a_grid_has_a_column_for_each_option_and_compares_with_its_first_line(tmp_path: Path) -> None:
    references = [f"the {noun} sees a {other} ." for noun in "abcdefgh" for other in "abcdefgh"]
    wrong = {"pre": 8, "post": 8, "none": 40}  # sentences with a wrong word
    for number, (norm, seed) in enumerate(product(wrong, (1, 2))):
        run, facts = tmp_path / f"{number}_transformer", {"seed": seed, "tgt_lang": "en"}
        finished = json.loads(results(bleu=20.0 + seed, model="transformer", **facts))
        overrides = ["experiment=x", f"model.norm={norm}", "data.train=a=b", f"seed={seed}"]
        write_run(run, overrides=overrides, results_json=json.dumps(finished | {"tests": {"t": {}}}))
        (run / "translations").mkdir()
        hypotheses = [r.replace("sees", "saw") if n % 64 < wrong[norm] else r for n, r in enumerate(references, seed)]
        for suffix, lines in (("ref", references), ("hyp", hypotheses)):
            (run / f"translations/t.{suffix}").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / GRID_FILE).touch()
    rows = sort_runs(read_runs(tmp_path), "run")
    assert runs_table(rows).splitlines()[0].split()[:4] == ["run", "model.norm", "seed", "parameters"]
    assert runs_table(rows).splitlines()[3].split()[:4] == ["2_transformer", "post", "1", "1,234,567"]
    head, first, same, worse = (line.split() for line in seed_table(rows, tmp_path).splitlines())
    assert head == ["model.norm", "seeds", "valid", "BLEU", "test", "BLEU", "difference", "p"]
    assert first == ["pre", "2", "21.50", "±", "0.71", "22.50", "±", "0.71"]
    assert same == ["post", *first[1:], "+0.00", "1.000"]
    assert worse[:8] == ["none", *first[1:]]
    assert float(worse[8]) < -10
    assert worse[9:] == ["<", "0.001"]
    # Without the translations of one run, only the spreads are known.
    (tmp_path / "5_transformer/translations/t.hyp").unlink()
    assert seed_table(rows, tmp_path).splitlines()[0].split() == head[:-2]


LINES = [["settings", "BLEU"], ["a|b & c_d", "31.20 ± 0.10"], ["50 % of {x}", "< 1"], ['a "quoted", text', ""]]
EXPECTED = {
    "text": [
        "settings                  BLEU",
        "a|b & c_d         31.20 ± 0.10",
        "50 % of {x}                < 1",
        'a "quoted", text',
    ],
    "markdown": [
        "| settings | BLEU |",
        "|:--|--:|",
        r"| a\|b & c_d | 31.20 ± 0.10 |",
        "| 50 % of {x} | < 1 |",
        '| a "quoted", text |  |',
    ],
    "latex": [
        r"% \usepackage{booktabs}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"settings & BLEU \\",
        r"\midrule",
        r"a|b \& c\_d & 31.20 $\pm$ 0.10 \\",
        r"50 \% of \{x\} & $<$ 1 \\",
        r'a "quoted", text &  \\',
        r"\bottomrule",
        r"\end{tabular}",
    ],
}


@pytest.mark.parametrize("style", EXPECTED)
def test_a_table_in_each_style(style: str) -> None:
    assert format_table(LINES, "<>", style).split("\n") == EXPECTED[style]


def test_csv_is_read_back() -> None:
    assert [*csv.reader(io.StringIO(format_table(LINES, "<>", "csv")))] == LINES


def test_columns_of_other_documents_have_titles_of_their_own() -> None:
    row = {key: 1 if form else "x" for key, (_, form) in COLUMNS.items()} | {"run": "a/b", "varied": None}
    for style, separator in (("csv", ","), ("latex", " & "), ("markdown", " | ")):
        (head,) = [line for line in runs_table([row], style).splitlines() if "valid BLEU" in line]
        titles = [title.strip("| \\") for title in head.split(separator)]
        assert len({*titles}) == len(titles) == len(COLUMNS)
    in_terminal = " ".join(runs_table([row]).splitlines()[0].split())
    assert in_terminal.endswith("valid BLEU chrF loss test BLEU chrF loss state")
