"""``heed score`` compared with the Translator."""

from pathlib import Path

import pytest

from heed.inference.loading import load
from tests.cli.models import LINES, Heed, TinyModel, save_model, write

TARGETS = ["Ein Mann fährt Rad.", "Oh.", "", "Zwei Kinder."]


def test_scores_are_log_probabilities_of_the_pairs(tmp_path: Path, heed: Heed, tiny_model: TinyModel) -> None:
    folder = save_model(tmp_path / "model", tiny_model, text=[*LINES, *TARGETS], vocab_size=75)
    expected = load(folder, device="cpu").score(LINES, TARGETS)
    src, tgt = write(tmp_path / "src", LINES), write(tmp_path / "tgt", TARGETS)
    for model in (["--model", folder], [folder]):
        status, out, err = heed("score", *model, "--src", src, "--tgt", tgt, "--device", "cpu")
        assert (status, err) == (0, "")
        assert [float(line) for line in out.splitlines()] == pytest.approx(expected, abs=1e-5)
    short = write(tmp_path / "short", LINES[:2])
    status, out, err = heed("score", folder, "--src", short, "--tgt", tgt)
    assert (status, out) == (2, "")
    assert f"{short} has 2 lines and {tgt} 4" in err
