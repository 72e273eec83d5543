"""Preparation: the same files whatever the processes, the interruptions and the sizes of blocks and shards."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heed import cache
from heed.cache import build_once
from heed.data.pairs import pairs as pairs_module
from heed.data.pairs.pairs import StoredPairs, TrainingPairs, encode
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.text import clean_pairs
from heed.data.text import corpus as module
from heed.data.text.clean_pairs import Preparation, write_clean_pairs
from heed.data.text.cleaning import Cleaning, Rules
from heed.data.text.corpus import Text
from heed.data.text.formats.sources import FileSource, read_text
from heed.data.text.source import Sentences
from heed.errors import HeedError
from heed.languages import Direction
from tests import forkserver
from tests.damage import flip_bit, largest_file, make_folder, truncate
from tests.data.texts import NO_RULES, ROOT, numbered_dogs, sentence_pairs, train_tokenizer, training_text
from tests.waiting import wait_for

PAIRS = numbered_dogs(500)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return train_tokenizer(PAIRS, tmp_path_factory.mktemp("cache"))


def stored(prepared: StoredPairs) -> list[tuple[list[int], list[int]]]:
    pairs = TrainingPairs([prepared]).read(np.arange(len(prepared)))
    return list(zip(pairs.src.to_pylist(), pairs.tgt.to_pylist(), strict=True))


def test_the_ids_are_those_of_the_tokenizer(tokenizer: Tokenizer, tmp_path: Path) -> None:
    text = Sentences([*PAIRS.src, "", "漢 😀"], [*PAIRS.tgt, "", "漢"])
    found = stored(encode(training_text(text, tmp_path), tokenizer))
    expected = list(zip(tokenizer.encode_src(text.src), tokenizer.encode_tgt(text.tgt), strict=True))
    assert sorted(found) == sorted(expected)
    assert found != expected, "the order is random"


@pytest.mark.parametrize("shard", [7, 90, 500])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("at_most", [200, pytest.param(None, marks=pytest.mark.full)])
def test_the_sizes_of_blocks_and_shards_change_no_pair(
    shard: int, keep: bool, at_most: int | None, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Sentences([*PAIRS.src, *PAIRS.src[:60]], [*PAIRS.tgt, *PAIRS.tgt[:60]])
    rules = NO_RULES | {"drop_duplicates": not keep}
    whole = training_text(text, tmp_path / "whole", rules=rules, at_most=at_most)
    monkeypatch.setattr("heed.data.text.source.BLOCK", 30)
    monkeypatch.setattr(pairs_module, "SHARD", shard)
    parts = training_text(text, tmp_path / "parts", rules=rules, at_most=at_most)
    assert len(whole.clean) == len(parts.clean) == (at_most or (560 if keep else 500))
    assert whole.clean.digest == parts.clean.digest
    assert whole.clean.report == parts.clean.report
    assert stored(encode(whole, tokenizer)) == stored(encode(parts, tokenizer))
    assert sentence_pairs(whole) == sentence_pairs(parts)


def test_the_order_of_the_text_changes_nothing(tokenizer: Tokenizer, tmp_path: Path) -> None:
    backwards = Sentences(PAIRS.src[::-1], PAIRS.tgt[::-1])
    texts = [training_text(text, tmp_path / name) for name, text in (("a", PAIRS), ("b", backwards))]
    assert texts[0].clean.digest == texts[1].clean.digest
    assert len({encode(text, tokenizer).digest for text in texts}) == 1


# ---- several processes


def write_text(path: Path, pairs: int) -> str:
    """Write two files with some duplicates and empty lines, and return the entry."""
    rng = random.Random(1)
    words = [f"w{n}" for n in range(50)]
    for language in ("en", "de"):
        sentences = (" ".join(rng.choices(words, k=rng.randint(0, 12))) for _ in range(pairs))
        (path / f"t.{language}").write_text("".join(f"{line} {language}\n" if line else "\n" for line in sentences))
    return f"[['{path}/t.en','{path}/t.de']]"


# Prepares a text in blocks of 300 lines and prints the digest. Arguments: folder, cache, number of processes.
PREPARE = """
import sys
from pathlib import Path
from heed.data.text.cleaning import Cleaning, Rules
from heed.languages import Direction
from heed.data.text.formats import sources
from heed.data.text.formats.sources import FileSource
from heed.data.text.formats.sources import read_text
from heed.data.text import clean_pairs
from heed.data.text.corpus import Text
from heed.data.pairs.pairs import encode
from heed.data.pairs.tokenizer import Tokenizer
from tests.data.texts import NO_RULES

if __name__ == "__main__":
    folder, cache, processes = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    sources.BLOCK, clean_pairs.SMALL = 300, 0
    text = Text([FileSource((folder / "t.en", folder / "t.de"), read_text)], Direction("en", "de")).cleaned(
        Rules(Cleaning(**(NO_RULES | {"drop_empty": True, "drop_duplicates": True})), None, [], False, None),
        preparation=clean_pairs.Preparation(num_proc=processes, wait_minutes=5),
        cache_dir=cache,
    )
    print(encode(text, Tokenizer.load(folder)).digest, text.clean.digest, flush=True)
"""


def start_preparation(path: Path, cache: str, processes: int) -> "subprocess.Popen[str]":
    script = path / "prepare.py"
    script.write_text(PREPARE)
    command = [sys.executable, str(script), str(path), str(path / cache), str(processes)]
    return forkserver.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )  # fmt: skip


def digest_of(process: "subprocess.Popen[str]") -> str:
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return printed


@pytest.mark.full
def test_one_and_two_processes_and_one_that_is_killed_again_and_again(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_text(tmp_path, 4000)
    tokenizer.save(tmp_path)
    start = time.monotonic()
    whole = digest_of(start_preparation(tmp_path, "one", 1))
    seconds = time.monotonic() - start
    assert digest_of(start_preparation(tmp_path, "two", 2)) == whole
    rng = random.Random(1)
    for _ in range(20):
        process = start_preparation(tmp_path, "killed", 2)
        time.sleep(rng.uniform(0.3, 1) * seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    together = [start_preparation(tmp_path, "killed", 2) for _ in range(2)]
    assert {digest_of(process) for process in together} == {whole}
    assert not list((tmp_path / "killed").rglob("*.partial"))


def test_the_workers_of_a_killed_process_end(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_text(tmp_path, 4000)
    tokenizer.save(tmp_path)
    process = start_preparation(tmp_path, "cache", 2)
    tasks = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    children = wait_for(lambda: found if len(found := tasks.read_text().split()) >= 2 else [])
    process.kill()
    process.communicate()
    wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_a_killed_worker_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_pairs, "SMALL", 0)
    monkeypatch.setattr(module, "write_clean_pairs", kill_worker)
    with pytest.raises(HeedError, match=r"was killed, probably for lack of memory: .*num_proc"):
        training_text(PAIRS, tmp_path)


def kill_worker(*arguments: Any) -> None:
    list(arguments[3].map([kill_this_process]))


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_waiting_has_a_limit_that_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    monkeypatch.setattr(cache, "POLL", 0.05)
    target = tmp_path / "entry"
    with FileLock(f"{target}.lock"):
        target.with_name("entry.owner").write_text("process 7 on host")
        with pytest.raises(
            HeedError,
            match=r"by process 7 on host after 0\.001 minutes: .*, or raise data\.preparation\.wait_minutes\.",
        ):
            build_once(target, lambda _: None, wait_minutes=0.001)


# Builds an entry and prints which process did. Arguments: its path, its rank.
BUILD_ENTRY = """
import os, sys
from pathlib import Path
from heed.cache import build_once

print("ready", flush=True)
entry = build_once(Path(sys.argv[1]), lambda folder: (folder / "builder").write_text(os.environ["RANK"]))
print((entry / "builder").read_text())
"""


def test_the_first_process_of_a_run_builds(tmp_path: Path) -> None:
    started = []
    for rank in ("2", "1", "0"):
        command = [sys.executable, "-c", BUILD_ENTRY, str(tmp_path / "entry")]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "RANK": rank}
        started.append(forkserver.Popen(command, stdout=subprocess.PIPE, text=True, env=env))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == "ready\n"
    assert {process.communicate(timeout=30)[0] for process in started} == {"0\n"}


def test_another_process_builds_where_the_first_one_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another node, whose disk the first process does not see."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr(cache, "HEAD_START", 0.2)
    assert len(training_text(PAIRS, tmp_path).clean) == 500


# ---- damage and full disks


@pytest.mark.parametrize("damage", [truncate, flip_bit, make_folder, os.remove])
@pytest.mark.parametrize("suffix", [".arrow", ".npy", ".json"])
def test_damaged_files_are_written_again(
    damage: Callable[[Path], None], suffix: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    text = training_text(PAIRS, tmp_path)
    expected = stored(encode(text, tokenizer)), text.clean.digest
    folders = [path for name in ("text", "encoded") for path in (tmp_path / name).iterdir() if path.is_dir()]
    assert len(folders) == 2
    for path in folders:
        for file in sorted(path.glob(f"*{suffix}")):
            damage(file)
    again = training_text(PAIRS, tmp_path)
    assert (stored(encode(again, tokenizer)), again.clean.digest) == expected


@pytest.mark.parametrize("size", [0, 100, 1000, 4000])
def test_a_full_disk_is_an_error_and_the_preparation_continues(size: int, tokenizer: Tokenizer, tmp_path: Path) -> None:
    text = training_text(PAIRS, tmp_path)
    with largest_file(size), pytest.raises(HeedError, match=r"File too large"):
        encode(text, tokenizer)
    with largest_file(size), pytest.raises(HeedError, match=r"File too large"):
        training_text(numbered_dogs(600), tmp_path)
    assert len(encode(text, tokenizer)) == 500
    assert len(training_text(numbered_dogs(600), tmp_path).clean) == 600


def test_blocks_that_were_cleaned_before_the_disk_was_full_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heed.data.text.source.BLOCK", 100)
    longest = Sentences([*PAIRS.src, "long " * 9000], [*PAIRS.tgt, "lang " * 9000])  # the last block
    with largest_file(40_000), pytest.raises(HeedError, match=r"File too large"):
        training_text(longest, tmp_path)
    (partial,) = tmp_path.glob("text/*.partial")
    kept = {file: file.stat().st_mtime_ns for file in partial.glob("block-*.arrow")}
    assert len(kept) == 5
    assert len(training_text(longest, tmp_path).clean) == 501
    (folder,) = (path for path in (tmp_path / "text").iterdir() if path.is_dir())
    assert {folder / file.name: time for file, time in kept.items()}.items() <= {
        file: file.stat().st_mtime_ns for file in folder.glob("block-*.arrow")
    }.items()


def text_of_files(folder: Path, cache: str = "cache", rules: dict[str, Any] = NO_RULES) -> Text:
    return Text([FileSource((folder / "t.en", folder / "t.de"), read_text)], Direction("en", "de")).cleaned(
        Rules(Cleaning(**rules), None, [], False, None),
        preparation=Preparation(num_proc=1, wait_minutes=1),
        cache_dir=folder / cache,
    )


def change_a_word(folder: Path) -> None:
    (folder / "t.en").write_text((folder / "t.en").read_text().replace("w1", "W1", 1))


def test_a_file_that_changes_after_it_was_cleaned_is_another_text(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_text(tmp_path, 50)
    before = text_of_files(tmp_path)
    expected = stored(encode(before, tokenizer))
    shutil.rmtree(tmp_path / "cache" / "encoded")
    change_a_word(tmp_path)
    assert stored(encode(before, tokenizer)) == expected, "the clean text was kept"
    after = text_of_files(tmp_path)
    assert after.clean.digest != before.clean.digest
    assert stored(encode(after, tokenizer)) != expected


def test_a_file_that_changes_while_it_is_scanned_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path, 50)

    def scan_and_change(*args: Any, **options: Any) -> Any:
        found = write_clean_pairs(*args, **options)
        change_a_word(tmp_path)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_clean_pairs", scan_and_change)
        with pytest.raises(HeedError, match=r"t\.de changed while it was read: start again"):
            text_of_files(tmp_path)
    assert not list((tmp_path / "cache").rglob("*.partial"))
    assert "W1" in " ".join(src for src, _ in sentence_pairs(text_of_files(tmp_path)))


def test_the_report_is_the_same_for_blocks_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples, too, which are the first of each rule in the text."""
    write_text(tmp_path, 1000)
    for language in ("en", "de"):  # the only duplicate and the only placeholder are far behind
        lines = (tmp_path / f"t.{language}").read_text().split("\n")
        lines[950] = lines[10] = f"the same {language}"
        lines[980] = "@@" if language == "de" else "word"
        (tmp_path / f"t.{language}").write_text("\n".join(lines))
    rules = NO_RULES | {"drop_empty": True, "drop_placeholders": True, "drop_duplicates": True}
    whole = text_of_files(tmp_path, "whole", rules).clean.report
    assert [(pair.number, pair.src, pair.tgt) for pair in whole.examples["placeholder"]] == [(981, "word", "@@")]
    assert [(pair.number, pair.src) for pair in whole.examples["duplicate"]] == [(951, "the same en")]
    assert len(whole.examples["empty"]) == 3
    (manifest,) = (tmp_path / "whole").glob("text/*/text.json")
    sizes = [(tmp_path / f"t.{language}").stat().st_size for language in ("en", "de")]
    assert json.loads(manifest.read_text())["inputs"] == {f"{tmp_path}/t.en and {tmp_path}/t.de": sum(sizes)}
    monkeypatch.setattr("heed.data.text.formats.sources.BLOCK", 7)
    monkeypatch.setattr(clean_pairs, "SMALL", 0)
    assert text_of_files(tmp_path, "parts", rules).clean.report == whole
