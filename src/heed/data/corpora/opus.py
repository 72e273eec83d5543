"""``data=opus``: corpora of OPUS, WMT and other collections, downloaded by mtdata (Gowda et al. 2021).

mtdata runs as a separate program, because its requirements conflict with heed's other extras. It may be installed in
its own environment. It writes two text files for each corpus, which are read like ``data=files``.
"""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from heed.compat import WINDOWS
from heed.data.cache import build_once, cache_key
from heed.data.corpora.options import CorpusOptions
from heed.data.corpus import Corpus, EvaluationSet
from heed.data.directions import Direction
from heed.data.formats.text_files import TextFiles
from heed.data.text import Text
from heed.errors import HeedError, missing_package
from heed.files import write_file
from heed.options import AtLeast1, validated
from heed.progress import announced

ROLES = {"train": "train-parts", "dev": "tests", "test": "tests"}
"""mtdata's names of training, validation and test sets, and the folders to which it writes them."""

DOWNLOAD = "download.json"
"""File of the cache that lists the files of a download."""


@validated("data.")
@dataclass(kw_only=True)
class OpusCorpus(CorpusOptions):
    """Corpora that mtdata knows. conf/data/opus.yaml explains each option.

    ``src_lang`` and ``tgt_lang`` are ISO 639-1 or 639-3 codes.

    Raises:
        HeedError: naming the ID that is invalid.
    """

    train: Sequence[str]
    valid: Sequence[str]
    test: Sequence[str] | None
    command: str
    num_jobs: AtLeast1
    src_lang: str
    tgt_lang: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ids = {"train": list(self.train), "dev": list(self.valid), "test": list(self.test or ())}
        _check_ids({"data.train": self.ids["train"], "data.valid": self.ids["dev"], "data.test": self.ids["test"]})
        for key, language in (("src_lang", self.src_lang), ("tgt_lang", self.tgt_lang)):
            if not re.fullmatch(r"[A-Za-z]{2,3}(_\w+)*", language):
                raise HeedError(f"data.{key}={language} must be an ISO 639 code, such as de or deu.")
        self.program = _split_command(self.command)
        self.folder = Path(self.cache_dir) / "opus" / cache_key((self.src_lang, self.tgt_lang), self.ids)

    def load(self) -> Corpus:
        """Download the corpora unless they are in the cache, read them, and clean the training pairs.

        Raises:
            HeedError: if mtdata is not installed or fails, or a file is invalid.
        """
        folder = build_once(self.folder, self._download, wait_minutes=self.preparation.wait_minutes)
        download = json.loads((folder / DOWNLOAD).read_text(encoding="utf-8"))
        root = folder / download["folder"]
        sources = {
            role: {name: TextFiles((root / src, root / tgt)) for name, (src, tgt) in files.items()}
            for role, files in download["files"].items()
        }
        direction = Direction(self.src_lang, self.tgt_lang)
        return self.build(
            "opus",
            [Text(list(sources["train"].values()), direction)],
            [EvaluationSet.read(sources["dev"].values(), direction)],
            {name: EvaluationSet.read([source], direction) for name, source in sources["test"].items()},
        )

    def _download(self, folder: Path) -> None:
        for earlier in folder.glob("download-*"):  # of an interrupted attempt: its mtdata may still be writing
            shutil.rmtree(earlier, ignore_errors=True)
        download = Path(mkdtemp(prefix="download-", dir=folder))
        # No --merge: it would write all training text a second time, and heed drops duplicates itself.
        command = [*self.program, "-no-pb", "get", "--langs", f"{self.src_lang}-{self.tgt_lang}"]
        for role, ids in self.ids.items():
            command += [f"--{role}", *ids] if ids else []
        command += ["--fail", "--n-jobs", str(self.num_jobs), "--out", str(download)]
        try:
            self._run(command, self.folder.with_suffix(".log"))
            files = _find_files(download)
        except HeedError:
            shutil.rmtree(download, ignore_errors=True)  # mtdata writes it again from what it has downloaded
            raise
        write_file(folder / DOWNLOAD, json.dumps({"folder": download.name, "files": files}, indent=1))

    def _run(self, command: Sequence[str], log: Path) -> None:
        if not command or shutil.which(command[0]) is None:
            raise missing_package(
                f"data=opus with data.command={shlex.join(self.program)}",
                "mtdata",
                "opus",
                otherwise="install mtdata in its own environment and set data.command to its path",
            )
        corpora = f"{sum(map(len, self.ids.values()))} corpora (log: {log})"
        with announced("Downloading with mtdata", corpora, expected_seconds=60), log.open("wb") as output:
            status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output).returncode
        if status:
            lines = log.read_text(errors="replace", encoding="utf-8").split("\n")
            reason = next((line.strip() for line in reversed(lines) if line.strip()), f"exit status {status}")
            raise HeedError(f"mtdata could not download the corpora: {reason:.300} (see {log}).")


def _split_command(command: str) -> list[str]:
    """Return the words of a command line."""
    try:
        return shlex.split(command, posix=not WINDOWS)  # there a backslash separates folders
    except ValueError as error:
        raise HeedError(f"data.command={command} cannot be split into words: {error}.") from error


def _check_ids(given: Mapping[str, Sequence[str]]) -> None:
    """Raise a HeedError if an ID is malformed or given twice, or if training or validation has no IDs."""
    seen: dict[str, str] = {}
    for option, ids in given.items():
        if not ids and option != "data.test":
            raise HeedError(f"{option} is empty: give a list of mtdata's IDs (`mtdata list -l de-en` lists them).")
        for name in ids:
            if not isinstance(name, str) or not re.fullmatch(r"\w[^-\s/]*(-[^-\s/]+){4}", name):
                raise HeedError(
                    f"{option}: {name} is not the ID of a parallel corpus, such as OPUS-tatoeba-v20230412-deu-eng "
                    "(`mtdata list -l de-en` lists them)."
                )
            if name in seen:
                raise HeedError(f"{option}: {name} is already in {seen[name]}: give every corpus once.")
            seen[name] = option


def _find_files(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Return the files of a download by role and ID, the source first.

    mtdata 0.5 writes mtdata.signature.txt last. It is a command line, with standard language codes and IDs.

    Raises:
        HeedError: if it wrote something else.
    """
    try:
        signature = (folder / "mtdata.signature.txt").read_text(encoding="utf-8").splitlines()[0]
        options = {name: values.split() for name, values in re.findall(r"--?(\w+)((?: (?!-)\S+)+)", signature)}
        src_lang = options["l"][0].split("-")[0]
        files = {
            role: {name: _pair(f"{place}/{name}", src_lang) for name in options.get(role, [])}
            for role, place in ROLES.items()
        }
        for file in (file for pairs in files.values() for pair in pairs.values() for file in pair):
            (folder / file).stat()
        return files
    except (OSError, IndexError, KeyError) as error:
        raise HeedError(
            f"{folder} does not have the layout of mtdata 0.5 ({error}): install it, and set data.command to it."
        ) from error


def _pair(name: str, src_lang: str) -> list[str]:
    """Return the source and the target file of a corpus. Its ID ends with both languages, in any order."""
    languages = name.split("-")[-2:]
    if languages[0].split("_")[0] != src_lang.split("_")[0]:
        languages.reverse()
    return [f"{name}.{language}" for language in languages]
