"""docs/published-models.md: its commands, on a model that transformers has trained."""

import os
import re
import subprocess
import sys
from pathlib import Path

import marian
import pytest
from docs.pages import DOCS

from tests.exchange.test_import import TINY, corpus

pytest.importorskip("transformers")

FEW = ("trainer=cpu", "logger=none", "trainer.max_steps=4", "trainer.validate_every=2")


def test_every_command_works(tmp_path: Path) -> None:
    lines = corpus(2000)
    marian.train(marian.write_marian(tmp_path / "DIR", lines, size=300, **TINY), tmp_path / "DIR", lines, steps=30)
    for name, rows in {"mine": slice(0, 300), "valid": slice(300, 320), "test": slice(320, 340)}.items():
        for side, text in zip(("src", "tgt"), lines, strict=True):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{line}\n" for line in text[rows]), encoding="utf-8")
    (tmp_path / "terms.tsv").write_text("bear\tBär\n", encoding="utf-8")
    page = (DOCS / "published-models.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    commands = [line for block in blocks for line in block.splitlines() if not line.startswith("heed serve")]
    assert len(commands) >= 12
    bin_ = Path(sys.executable).parent
    for command in commands:
        if command.startswith("heed train"):
            command = f"{command} {' '.join(FEW)} data.src_lang=en data.tgt_lang=de"
        environment = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            ["bash", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"{command}\n{done.stderr[-2000:]}"
    assert (tmp_path / "comparison").exists()
    assert (tmp_path / "model.html").stat().st_size > 10_000
    assert "Made from DIR (licence: apache-2.0) with" in (tmp_path / "tuned-hub" / "README.md").read_text()
