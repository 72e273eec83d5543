"""``heed check``: faults are named with their files and lines, and wrong input is a sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heed.launch.check import _ranges
from heed.synthetic import generate

Heed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Training and validation files, by "train.en" and so on."""
    corpus = generate(seed=4, train=400, valid=30, test=2, long=2)
    found = {}
    for split in ("train", "valid"):
        for language, side in (("en", "src"), ("de", "tgt")):
            found[f"{split}.{language}"] = tmp_path / f"{split}.{language}"
            lines = [getattr(example, side) for example in corpus[split]]
            found[f"{split}.{language}"].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return found


def test_faults_are_named_with_their_lines(files: dict[str, Path], heed: Heed, tmp_path: Path) -> None:
    (en, de), valid = ([files[f"{split}.{lang}"] for lang in ("en", "de")] for split in ("train", "valid"))
    sources, targets = (file.read_text(encoding="utf-8").splitlines() for file in (en, de))
    sources[9:12], targets[9:12] = targets[9:12], sources[9:12]
    targets[20] = "Das ist fÃ¼r dich ."
    for file, lines in ((en, sources), (de, targets)):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    cache = f"cache_dir={tmp_path}/cache"
    status, out, err = heed("check", en, de, "--valid", *valid, cache, "trainer.max_steps=3000",
                            "trainer.max_epochs=null")  # fmt: skip
    assert status == 0
    assert f"{en} and {de}, lines 10–12: In at least 0.8% of the training pairs the languages are swapped" in out
    assert f"{en} and {de}, line 21: 0.2% of the training pairs have UTF-8 that was read as Latin-1" in out
    assert "pairs: train 400, valid 30" in out
    assert "about 3,000 steps" in out
    assert "400 read, 400 kept" in err


def test_a_path_may_contain_an_equals_sign(files: dict[str, Path], heed: Heed, tmp_path: Path) -> None:
    folder = tmp_path / "lang=en-de"
    folder.mkdir()
    paths = [files[f"train.{language}"].rename(folder / f"train.{language}") for language in ("en", "de")]
    status, out, err = heed("check", *paths, f"cache_dir={tmp_path}/cache")
    assert status == 0, err
    assert "pairs: train 400" in out


def test_options_of_a_training_can_be_given_instead_of_files(heed: Heed, tmp_path: Path) -> None:
    small = ["data.train=60", "data.valid=10", "data.test=2", "data.long=2", "model=rnn", f"cache_dir={tmp_path}/cache"]
    status, out, _ = heed("check", *small, "trainer.max_steps=100", "schedule.warmup_steps=80")
    assert status == 0
    assert "rnn, " in out
    assert "The warm-up takes 80 of the 100 steps" in out
    assert "the generated corpus: no fault found in 60 pairs." in out
    german = ["data.src_lang=de", "data.tgt_lang=en", "data.train=400", "data.valid=30"]
    _, out, _ = heed("check", *small, *german, "trainer.max_steps=100")
    assert "de → en" in out
    assert "the generated corpus: no fault found in 400 pairs." in out


def test_mistakes_are_sentences(files: dict[str, Path], heed: Heed, tmp_path: Path) -> None:
    status, out, err = heed("check", files["train.en"], tmp_path / "missing.de", f"cache_dir={tmp_path}/cache")
    assert (status, out) == (2, "")
    assert "missing.de does not exist" in err
    assert heed("check", "data.trian=3")[0] == 2


@pytest.mark.parametrize(
    ("rows", "text"),
    [([3], "3"), ([1, 2, 3, 7], "1–3, 7"), ([1, 3, 5, 7, 9, 11, 12], "1, 3, 5, 7, 9, … (7 in all)")],
)
def test_ranges(rows: Any, text: str) -> None:
    assert _ranges(rows) == text
