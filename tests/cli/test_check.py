"""``heed check``: faults are named with their files and lines, and wrong input is a sentence."""

from pathlib import Path

import pytest
from grammar.corpus import generate

from tests.cli.models import Heed, Refused, write

OWN_CORPUS = """
from heed.data.text.synthetic_corpus import SyntheticCorpus

class MyCorpus:
    def __init__(self, **options):
        self._corpus = SyntheticCorpus(**options)

    def load(self):
        return self._corpus.load()
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Training and validation files, by "train.en" and so on."""
    corpus = generate(seed=4, train=400, valid=30, test=2, long=2)
    found = {}
    for split in ("train", "valid"):
        for language, side in (("en", "src"), ("de", "tgt")):
            lines = (getattr(example, side) for example in corpus[split])
            found[f"{split}.{language}"] = write(tmp_path / f"{split}.{language}", lines)
    return found


def test_faults_are_named_with_their_lines(files: dict[str, Path], heed: Heed, tmp_path: Path) -> None:
    (en, de), valid = ([files[f"{split}.{lang}"] for lang in ("en", "de")] for split in ("train", "valid"))
    sources, targets = (file.read_text(encoding="utf-8").splitlines() for file in (en, de))
    sources[9:12], targets[9:12] = targets[9:12], sources[9:12]
    targets[20] = "Das ist fÃ¼r dich ."
    write(en, sources)
    write(de, targets)
    cache = f"cache_dir={tmp_path}/cache"
    status, out, err = heed("check", en, de, "--valid", *valid, cache, "trainer.max_steps=3000",
                            "trainer.max_epochs=null")  # fmt: skip
    assert status == 0
    assert f"{en} and {de}, lines 10–12: In at least 0.75% of the training pairs the languages are swapped" in out
    assert f"{en} and {de}, line 21: 0.25% of the training pairs have UTF-8 that was read in another encoding" in out
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
    assert "the built-in corpus: no fault found in 60 pairs." in out
    german = ["data.src_lang=de", "data.tgt_lang=en", "data.train=400", "data.valid=30"]
    _, out, _ = heed("check", *small, *german, "trainer.max_steps=100")
    assert "de → en" in out
    assert "the built-in corpus: no fault found in 400 pairs." in out


def test_sets_that_are_scored_are_examined(files: dict[str, Path], heed: Heed, tmp_path: Path) -> None:
    (en, de), valid = ([files[f"{split}.{lang}"] for lang in ("en", "de")] for split in ("train", "valid"))
    tests = [tmp_path / "test.en", tmp_path / "test.de"]
    for file, copy in zip(valid, tests, strict=True):
        write(copy, file.read_text(encoding="utf-8").split("\n")[:20])
    write(valid[0], [f"<b>{line}</b>" for line in valid[0].read_text(encoding="utf-8").split("\n")[:30]])
    write(tests[1], ["" if row == 4 else line for row, line in enumerate(tests[1].read_text("utf-8").split("\n")[:20])])
    given = (en, de, "--valid", *valid, f"data.test={{news: [[{tests[0]},{tests[1]}]]}}", f"cache_dir={tmp_path}/cache")
    status, out, _ = heed("check", *given)
    assert status == 0
    assert f"{en} and {de}: no fault found in 400 pairs." in out
    assert "valid, lines 1–30: 100% of the validation pairs have HTML tags" in out
    assert "news, line 5: 5% of the pairs of news have no source or no reference" in out
    assert "valid" not in heed("check", en, de, f"cache_dir={tmp_path}/cache")[1].partition("Auto:")[2]


def test_what_few_pairs_do_not_show_is_said(files: dict[str, Path], heed: Heed, tmp_path: Path) -> None:
    few = [tmp_path / "few.en", tmp_path / "few.de"]
    for file, copy in zip((files["train.en"], files["train.de"]), few, strict=True):
        write(copy, file.read_text(encoding="utf-8").split("\n")[:50])
    _, out, _ = heed("check", *few, f"cache_dir={tmp_path}/cache")
    assert f"{few[0]} and {few[1]}: swapped, untranslated, shifted and unrelated lines and third languages were" in out


def test_all_lines_are_listed_and_what_a_training_keeps_is_written(
    files: dict[str, Path], heed: Heed, tmp_path: Path
) -> None:
    en, de = files["train.en"], files["train.de"]
    sources, targets = (file.read_text(encoding="utf-8").split("\n")[:400] for file in (en, de))
    for row in range(0, 80, 10):
        sources[row], targets[row] = targets[row], sources[row]
    targets[3], sources[5], targets[5] = "", sources[4], targets[4]
    sources[7] += "\u200b"
    write(en, sources)
    write(de, targets)
    table, folder = tmp_path / "lines.tsv", tmp_path / "kept"
    given = ("check", en, de, "--lines", table, "--write", folder, f"cache_dir={tmp_path}/cache")
    status, out, _ = heed(*given)
    assert status == 0
    assert "lines 1, 11, 21, 31, 41, … (8 in all: --lines FILE lists them)" in out
    header, *rows = (line.split("\t") for line in table.read_text(encoding="utf-8").splitlines())
    assert header == ["text", "line", "fault"]
    assert {name for name, _, _ in rows} == {f"{en} and {de}"}
    assert [(int(number), fault) for _, number, fault in rows] == sorted([
        *((row + 1, "swapped") for row in range(0, 80, 10)), (4, "empty"), (4, "dropped: empty"), (6, "duplicates"),
        (6, "dropped: duplicate"), (8, "invisible"),
    ])  # fmt: skip
    kept = [(folder / f"train.{lang}").read_text(encoding="utf-8").split("\n")[:-1] for lang in ("en", "de")]
    pairs = [pair for row, pair in enumerate(zip(sources, targets, strict=True)) if row not in (3, 5)]
    assert [*zip(*kept, strict=True)] == pairs
    before = table.read_bytes()
    assert heed(*given)[0] == 2  # nothing is overwritten
    assert "already exists" in heed("check", en, de, "--write", folder)[2]
    assert table.read_bytes() == before


@pytest.mark.parametrize(
    "options",
    [("data.max_train=100",), ("data.max_train=100", "data.cleaning.drop_duplicates=false"), ("data.reverse=true",)],
)
def test_every_dropped_line_has_its_rule(
    files: dict[str, Path], heed: Heed, tmp_path: Path, options: tuple[str, ...]
) -> None:
    en, de = files["train.en"], files["train.de"]
    for file in (en, de):
        file.write_text(file.read_text(encoding="utf-8") * 2, encoding="utf-8")
    table, folder = tmp_path / "lines.tsv", tmp_path / "kept"
    status, _, err = heed("check", "--lines", table, en, de, "--write", folder, f"cache_dir={tmp_path}/cache",
                            *options)  # fmt: skip
    assert status == 0, err
    kept = len((folder / "train.en").read_text(encoding="utf-8").splitlines())
    dropped = [line for line in table.read_text(encoding="utf-8").splitlines() if "\tdropped: " in line]
    assert kept + len(dropped) == 800
    rules = {int(number): rule for _, number, rule in (line.split("\t") for line in dropped)}
    assert "data.reverse=true" not in options or rules == dict.fromkeys(range(401, 801), "dropped: duplicate")
    assert "data.cleaning.drop_duplicates=false" not in options or {*rules.values()} == {"dropped: over max_train"}
    assert {*rules.values()} <= {"dropped: duplicate", "dropped: over max_train"}


def test_a_corpus_class_without_reverse_is_checked(heed: Heed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_corpus.py").write_text(OWN_CORPUS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    own = ["data._target_=my_corpus.MyCorpus", "data.train=300", "data.valid=20", "data.test=2", "data.long=2"]
    status, out, err = heed("check", *own, f"cache_dir={tmp_path}/cache")
    assert status == 0, err
    assert "no fault found in 300 pairs" in out


def test_mistakes_are_sentences(files: dict[str, Path], refused: Refused, tmp_path: Path) -> None:
    given = (files["train.en"], tmp_path / "missing.de", f"cache_dir={tmp_path}/cache")
    assert "missing.de does not exist" in refused("check", *given)
    assert "data.trian is unknown" in refused("check", "data.trian=3")
