"""COMET by the program ``comet-score``, which a script plays that scores by shared letters."""

import sys
from pathlib import Path

import numpy as np
import pytest

from heed.errors import HeedError
from heed.evaluation.comet import comet
from heed.evaluation.scores import SystemOutput

pytestmark = pytest.mark.posix("the program of the tests is a script")

SOURCES = ["a man rides a bike .", "the dog sleeps .", "x"]
HYPOTHESES = ["Ein Mann\u2028fährt Rad.", "Ein Hund schläft!", ""]
REFERENCES = [["Ein Mann fährt Fahrrad.", "Der Hund schläft.", "y"], ["Er fährt Rad.", "Der\rHund", "nein"]]
OUTPUT = SystemOutput(hypotheses=HYPOTHESES, references=REFERENCES, sources=SOURCES)


def test_the_score_is_the_mean_over_sentences_and_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_comet(tmp_path, monkeypatch)
    rows = [
        row
        for refs in REFERENCES
        for row in zip(SOURCES, HYPOTHESES, [ref.replace("\r", " ") for ref in refs], strict=True)
    ]
    expected = np.mean([expected_score(*row) for row in rows])
    folder = save_comet(tmp_path / "comet")
    for name in (folder, folder / "checkpoints" / "model.ckpt", "Unbabel/wmt22-comet-da"):
        found = comet(OUTPUT, name=str(name))
        assert found.value == pytest.approx(expected, abs=1e-12)
        assert found.signature == f"nrefs:2|model:{name}|unbabel-comet:{VERSION}"


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as empty:
        empty.setenv("PATH", str(tmp_path))
        with pytest.raises(HeedError, match=r"program comet-score, which is not on PATH: .* `uv tool install unbabel-"):
            comet(OUTPUT)
    install_comet(tmp_path, monkeypatch)
    message = (
        r"^comet-score cannot score with COMET some/model \(KeyError: \"Model 'some/model' not supported by COMET.\"\):"
        r" .* fetch it with `hf download some/model`\.$"
    )
    with pytest.raises(HeedError, match=message):
        comet(OUTPUT, name="some/model")
    with pytest.raises(HeedError, match="COMET needs the source sentences"):
        comet(SystemOutput(hypotheses=["a"], references=[["a"]]))


VERSION = "2.2.7"
PROGRAM = f"""#!{sys.executable}
import argparse, json, os
parser = argparse.ArgumentParser(allow_abbrev=False)
for name in ("sources", "references", "gpus", "num_workers", "to_json", "model"):
    parser.add_argument(f"--{{name}}")
parser.add_argument("--translations", nargs="+")
for name in ("quiet", "only_system"):
    parser.add_argument(f"--{{name}}", action="store_true")
args = parser.parse_args()
assert os.environ["HF_HUB_OFFLINE"] == "1"
if not args.model.startswith("Unbabel/") and not os.path.isfile(args.model):
    raise KeyError(f"Model '{{args.model}}' not supported by COMET.")
paths = {{"src": args.sources, "mt": args.translations[0], "ref": args.references}}
texts = {{key: [line.strip() for line in open(path, encoding="utf-8")] for key, path in paths.items()}}
rows = [dict(zip(texts, row)) for row in zip(*texts.values(), strict=True)]
for row in rows:
    row["COMET"] = len({{*row["mt"]}} & {{*row["ref"]}}) / (len(row["ref"]) + len(row["src"]))
print("a line that is not read")
json.dump({{args.translations[0]: rows}}, open(args.to_json, "w", encoding="utf-8"), ensure_ascii=False)
"""


def install_comet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the program on PATH, in an environment below ``folder``."""
    program = folder / "environment" / "bin" / "comet-score"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    package = folder / "environment" / "lib" / "python3.11" / "site-packages" / f"unbabel_comet-{VERSION}.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Name: unbabel-comet\nVersion: {VERSION}\n", encoding="utf-8")
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


def save_comet(folder: Path) -> Path:
    """Make a folder of a COMET model, whose weights are not read, and return it."""
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "model.ckpt").touch()
    return folder


def expected_score(source: str, hypothesis: str, reference: str) -> float:
    """Return the score of the program for one sentence."""
    return len({*hypothesis} & {*reference}) / (len(reference) + len(source))
