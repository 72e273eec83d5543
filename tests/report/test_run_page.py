"""The page of a run: what it says in each state, its data, its size, and what a real run gives it."""

import base64
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heed.errors import HeedError
from heed.report.curves import BUCKETS
from heed.report.run_page import render_report, write_report
from heed.runs.folder import locked, write_failure
from tests.finished import FinishedRun
from tests.report.html import Page
from tests.report.runs import SENTENCES, make_run, results


def data_of(html: str) -> dict[str, Any]:
    """Return the data that the script of the page draws."""
    (script,) = [each for each in Page(html).find("script") if each.attributes.get("id") == "data"]
    return dict(json.loads(script.text))


def heading(html: str) -> str:
    return " ".join(Page(html).find("h1")[0].text.split())


def state(html: str) -> str:
    return Page(html).find(css_class="state")[0].text


def test_a_figure_says_whether_its_metric_scores_translations(tmp_path: Path) -> None:
    metrics = make_run(tmp_path / "run") / "metrics.csv"
    head, *rows = metrics.read_text().splitlines()
    lines = [f"{head},valid_word-perplexity,valid_ter", *(f"{row},," for row in rows)]
    metrics.write_text("\n".join(lines) + "\n")
    units = {figure["title"]: figure["unit"] for figure in data_of(render_report(tmp_path / "run"))["figures"]}
    assert (units["aer"], units["word-perplexity"], units["ter"]) == ("validation", "validation", "validation, greedy")


# ---- states


def test_a_run_that_trains(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with locked(run):
        html = render_report(run)
    assert (state(html), heading(html)) == ("running", "Training: step 60 of 61")
    assert "Validation BLEU 40.00 at step 60." in Page(html).text
    assert "seed=7" in Page(html).text
    assert "resume=true" not in Page(html).text


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a run")
    html = render_report(run)
    assert (state(html), heading(html)) == ("interrupted", "Interrupted after 60 steps")
    assert "resume=true" not in Page(html).text  # it has no checkpoint
    (run / "checkpoints").mkdir()
    (run / "checkpoints/last-0000060.ckpt").touch()
    (run / ".hydra").mkdir()
    (run / ".hydra/overrides.yaml").write_text("- model=rnn\n- data.train=[a b]\n- resume=true\n")
    assert f"heed train model=rnn 'data.train=[a b]' folder='{run}' resume=true" in Page(render_report(run)).text


def test_a_failed_run_says_why(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    write_failure(run, "Training diverged: <NaN>.", ValueError())
    html = render_report(run)
    assert (state(html), heading(html)) == ("failed", "Failed after 60 steps")
    assert "Training diverged: <NaN>." in Page(html).text
    (run / "config.yaml").unlink()  # a job of a grid that failed before its config was written
    assert state(render_report(run)) == "failed"


def test_a_finished_run_has_its_scores_with_signatures(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "results.json").write_text(results())
    html = render_report(run)
    assert (state(html), heading(html)) == ("finished", "BLEU 39.75 on test after 60 steps")
    for text in (
        "1,234,567",
        "41.25",
        "nrefs:1|tok:13a",
        "model=rnn",
        "beam_size=4",
        "60 read, 58 kept",
        "files, en → de",
    ):
        assert text in Page(html).text, text
    (run / "results.json").write_text(results(test=None, tests={}))
    assert heading(render_report(run)) == "BLEU 41.25 on valid after 60 steps"


def test_a_run_of_which_little_is_there(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    html = render_report(tmp_path)
    assert heading(html) == "Interrupted after 0 steps"
    assert [title.text for title in Page(html).find("h2")] == ["What was trained", "What comes next"]
    (tmp_path / "results.json").write_text(results())
    assert heading(render_report(tmp_path)).startswith("BLEU")


def test_diagnoses_are_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "diagnoses.jsonl").write_text('{"step": 20, "name": "copies", "message": "Half are <copies>."}\n')
    text = Page(render_report(run)).text
    assert "Half are <copies>." in text
    assert "copies, step 20" in text


# ---- errors


@pytest.mark.parametrize("damage", [
    ("metrics.csv", "step,x\n1,2\n"), ("speed.csv", "step\nx\n"), ("samples.jsonl", "{\n"), ("samples.jsonl", "[1]\n"),
    ("facts.json", "["), ("attention/pieces.json", '{"x": {}}'), ("diagnoses.jsonl", "{}\n"), ("results.json", "{}"),
    ("attention/heads.csv", f'"{"x" * 200_000}\n'),
])  # fmt: skip
def test_damaged_files_are_reported_in_a_sentence(damage: tuple[str, str], tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / damage[0]).write_text(damage[1])
    with pytest.raises(HeedError, match="damaged"):
        render_report(run)


def test_other_folders_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(HeedError, match="is not the folder of a run"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


# ---- data


def test_text_of_the_run_is_escaped(tmp_path: Path) -> None:
    html = render_report(make_run(tmp_path / "run"))
    assert "<b>dog" not in html
    assert data_of(html)["samples"]["valid"]["source"][0] == SENTENCES[0]


def test_translations_of_other_sentences_are_not_shown_as_those_of_the_latest(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with (run / "samples.jsonl").open("a", encoding="utf-8") as file:  # resumed with fewer sentences
        texts = {"source": ["x"], "reference": ["y"], "translation": ["z"]}
        file.write(json.dumps({"step": 80, "set": "valid", **texts}) + "\n")
    assert data_of(render_report(run))["samples"]["valid"] == {
        "source": ["x"], "reference": ["y"], "steps": [80], "translations": [["z"]],
    }  # fmt: skip


def test_the_page_asks_no_other_machine(tmp_path: Path) -> None:
    html = render_report(make_run(tmp_path / "run"))
    assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(""", html)


def test_curves_have_the_values_of_the_files(tmp_path: Path) -> None:
    data = data_of(render_report(make_run(tmp_path / "run")))
    figures = {figure["title"]: figure["curves"] for figure in data["figures"]}
    assert figures["BLEU and chrF"]["BLEU"] == [[20, 40, 60], [13.333, 26.667, 40.0]]
    assert figures["Loss"]["train"][0] == [*range(5, 61, 5)]
    assert figures["Speed"]["speed"][1] == [200.0] * 12
    assert [column[-1] for column in data["clock"]] == [60, 6000, 30]


def test_maps_are_those_of_the_most_informative_head(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    weights = np.full((2, 2, 12, 12), 1 / 12, dtype=np.float16)
    weights[1, 0] = np.eye(12)
    np.savez_compressed(run / "attention/0000060/maps.npz", **{f"{n}_pronoun": weights for n in range(5)})
    first, *_ = data_of(render_report(run))["maps"]
    assert (first["head"], first["steps"], first["rows"][0]) == ([2, 1], [20, 40, 60], "w0")
    decoded = np.frombuffer(base64.b64decode(first["weights"][-1]), np.uint8).reshape(12, 12)
    assert np.array_equal(decoded, 255 * np.eye(12))
    assert first["gold"] == [[0, 1]]


def test_maps_of_a_corpus_without_gold_alignments_have_no_outlines(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert "gold alignment" in Page(render_report(run)).text
    file = run / "attention" / "pieces.json"
    pieces = json.loads(file.read_text())
    file.write_text(json.dumps({name: {k: v for k, v in of.items() if k != "gold"} for name, of in pieces.items()}))
    assert "gold alignment" not in Page(render_report(run)).text


def test_each_head_has_its_entropy_and_alignment_error_rate(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with (run / "attention/heads.csv").open("a") as file:
        file.write("60,encoder_self,2,1,0.9,\n")
    entropy, rate, encoder = data_of(render_report(run))["heads"]
    assert [chart["unit"] for chart in (entropy, rate, encoder)] == ["entropy", "alignment error rate", "entropy"]
    assert [panel["head"] for panel in entropy["panels"]] == [1, 2]
    assert entropy["panels"][1]["curves"] == [{"side": 0, "steps": [20, 40, 60], "values": [0.25] * 3}]
    assert rate["panels"][0]["curves"][0]["values"] == [0.33333, 0.66667, 1]
    assert encoder["panels"] == [{"layer": 2, "head": 1, "curves": [{"side": 0, "steps": [60], "values": [0.9]}]}]
    (run / "attention/heads.csv").write_text("step,attention\n20,cross\n")
    with pytest.raises(HeedError, match="damaged"):
        render_report(run)


def test_the_page_of_a_long_run_is_small_and_has_every_validation_and_every_extreme(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=100_000, log_every=5, validate_every=200, pieces=60)
    spike = (run / "metrics.csv").read_text().replace("\n50005,0,0.001,", "\n50005,0,9.5,")
    (run / "metrics.csv").write_text(spike)
    html = render_report(run)
    assert len(html.encode()) < 3_000_000
    data = data_of(html)
    figures = {figure["title"]: figure["curves"] for figure in data["figures"]}
    assert figures["BLEU and chrF"]["BLEU"][0] == [*range(200, 100_001, 200)]
    rates = dict(zip(*figures["Learning rate"]["lr"], strict=True))
    assert len(rates) <= 2 * BUCKETS + 2
    assert rates[50005] == 9.5
    assert {5, 100_000} <= rates.keys()
    assert len(data["maps"][0]["steps"]) > 10
    assert data["maps"][0]["steps"][-1] == 20_000
    assert len(data["samples"]["valid"]["steps"]) > 50


# ---- a real run


def test_the_page_of_a_real_run(finished: FinishedRun, tmp_path: Path) -> None:
    html = (finished.folder / "report.html").read_text(encoding="utf-8")
    assert (state(html), heading(html)[:5]) == ("finished", "BLEU ")
    data, text = data_of(html), Page(html).text
    assert data["samples"]["valid"]["steps"] == [2, 4]
    final = (finished.folder / "translations/valid.hyp").read_text(encoding="utf-8").split("\n")
    assert data["samples"]["valid"]["translations"][-1][0] == final[0]
    assert [each["steps"] for each in data["maps"]] == [[2, 4]]
    assert data["clock"][0] == [2, 4]
    assert data["clock"][1][1] == json.loads((finished.folder / "results.json").read_text())["tokens"]
    assert "Alignment error rate" not in text  # which the script writes
    assert "training pairs: 60 read, 60 kept" in text
    assert "model=rnn" in text
    # The run prints the path first at its end, and `heed report` writes the same page again.
    printed = finished.printed.splitlines()
    assert printed[[line.startswith("Trained") for line in printed].index(True) - 1].endswith("report.html")
    copy = tmp_path / finished.folder.name
    shutil.copytree(finished.folder, copy, ignore=shutil.ignore_patterns("checkpoints", "wandb", "report.html"))
    assert data_of(write_report(copy).read_text(encoding="utf-8")) == data


def test_writing_a_page_imports_neither_torch_nor_matplotlib() -> None:
    slow = {"torch", "matplotlib", "hydra", "lightning", "wandb"}
    code = f"import sys, heed.report.run_page; print({slow} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
