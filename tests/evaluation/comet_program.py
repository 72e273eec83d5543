"""A program with the options and the files of Unbabel's ``comet-score`` 2.2.7, that scores by shared letters."""

import sys
from pathlib import Path

import pytest

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
