"""One random life cycle: a training with a few features, then commands on its run, in forked processes."""

import json
import re
import shutil
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from heed.errors import HeedError
from soak.lives.forked import Done, forked, heed
from soak.process import ROOT

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("features.toml").read_text(encoding="utf-8"))
FAMILIES = ("transformer", "rnn")
FEATURES: dict[str, list[str]] = {**TABLE["transformer"], **TABLE["rnn"], **TABLE["any"]}
RUN = "runs/life"
"""The folder of the run, below the folder in which a training is started."""


def option(word: str) -> str:
    """Return the name of OPTION=VALUE."""
    return word.partition("=")[0]


@cache
def known_options() -> frozenset[str]:
    """Return every option and group that docs/options.md lists, which is generated from the code."""
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    return frozenset(word.partition("=")[0] for word in re.findall(r"`([^`\s]+)`", page))


def unknown_options(text: str) -> list[str]:
    """Return the options that a message names and that do not exist."""
    found = re.findall(r"(?<![\w./'\"-])([a-z_]+(?:[./][a-z_0-9]+)+)=", text)
    parts = {name.split(sign)[0] for name in known_options() for sign in "./"}
    begins = {f"{name}." for name in known_options()}
    unknown = [name for name in found if not any(known.startswith(f"{name}.") for known in begins)]
    return [name for name in unknown if re.split("[./]", name)[0] in parts - {"conf"}]


@dataclass(frozen=True)
class Case:
    """What a life cycle is made of. Its text form repeats it: ``rnn: muon, ema | kill, translate | 17``."""

    family: str
    features: tuple[str, ...]
    stages: tuple[str, ...]
    seed: int

    def __str__(self) -> str:
        return f"{self.family}: {', '.join(self.features)} | {', '.join(self.stages)} | {self.seed}"

    @classmethod
    def parse(cls, text: str) -> "Case":
        """Read the text form; raise a ValueError if it is none."""
        features, stages, seed = text.split("|")
        family, _, names = features.partition(":")
        split = [tuple(name.strip() for name in part.split(",") if name.strip()) for part in (names, stages)]
        if unknown := [name for name in split[0] if name not in FEATURES]:
            raise ValueError(f"there is no feature {unknown[0]}")
        return cls(family.strip(), split[0], split[1], int(seed))

    def overrides(self, corpus: Path) -> list[str]:
        """Return the options of the training: those of features replace the base's."""
        own = [word for name in self.features for word in FEATURES[name]]
        base = [*TABLE["base"]["options"], *TABLE["base"][self.family]]
        set_here = {option(word) for word in own}
        if "data=synthetic" in own:
            base = [word for word in base if not word.startswith("data.")]
        kept = [word for word in base if option(word) not in set_here]
        return [word.replace("{corpus}", str(corpus)) for word in (*kept, *own, "name=life")]


@dataclass
class Outcome:
    """The result of a case."""

    drawn: Case
    case: Case
    """What is left of it without what was refused."""
    problems: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    """What was refused together, "feature + feature" or "feature + stage", and the sentence."""
    done: list[str] = field(default_factory=list)
    """Stages that ran."""
    seconds: float = 0.0


class RefusedError(Exception):
    """heed has refused a command with a sentence."""


class Life:
    """The folders and commands of a case."""

    def __init__(self, case: Case, corpus: Path, folder: Path) -> None:
        self.case, self.corpus, self.folder = case, corpus, folder
        self.overrides = case.overrides(corpus)
        self.problems: list[str] = []
        self.seconds = 0.0
        self.own_caches: set[str] = set()
        """The subfolders whose cache is not the uninterrupted training's."""
        self.events = 0
        """Events of the uninterrupted training: see `heed`."""

    def heed(self, *words: str, at: str = "reference", kill: int | None = None, ranks: int = 1) -> Done:
        """Run a command in a subfolder, and note what no command may do. Status 2 raises RefusedError."""
        folder = self.folder / at
        folder.mkdir(parents=True, exist_ok=True)
        cache = self.folder / "reference" / "cache"
        if at != "reference" and at not in self.own_caches and cache.exists() and not (folder / "cache").exists():
            (folder / "cache").symlink_to(cache)
        done = heed(words, folder, kill=kill, ranks=ranks)
        self.seconds += done.seconds
        killed = kill is not None and done.status == -9
        command = " ".join(words[:2])
        if "Traceback" in done.err:
            self.problems.append(f"{command}: traceback: {done.err[done.err.index('Traceback') :][-900:]}")
        elif done.status not in (0, 2) and not killed:
            self.problems.append(f"{command}: exit status {done.status}: {done.err[-300:]}")
        if unknown := unknown_options(done.err + (done.out if words[0] == "train" else "")):
            self.problems.append(f"{command}: the message names {unknown[0]}=, which does not exist: {done.err[-300:]}")
        if done.status == 2:
            raise RefusedError(done.err.strip().rpartition("\n")[2])
        if done.status != 0 and not killed:
            raise FailedError
        return done

    def train(self, *changes: str, at: str, kill: int | None = None, ranks: int = 1) -> Done:
        """Train with the options of the case and a few changes."""
        changed = {option(word) for word in changes}
        words = [word for word in self.overrides if option(word) not in changed]
        return self.heed("train", *words, *changes, at=at, kill=kill, ranks=ranks)

    def check(self, judge: Callable[..., Iterable[str]], *arguments: Any) -> None:
        """Note the problems that a function finds in a forked process. A HeedError there is a refusal."""

        def find() -> int:
            try:
                print(json.dumps([*judge(*arguments)]))
            except HeedError as error:
                print(error, file=sys.stderr)
                return 2
            return 0

        done = forked(find, (judge.__name__,), self.folder)
        self.seconds += done.seconds
        if done.status == 2:
            raise RefusedError(done.err.strip())
        if done.status:
            self.problems.append(f"{judge.__name__}: {done.err[-900:]}")
        else:
            self.problems += [
                f"{judge.__name__}: {problem}" for problem in json.loads(done.out.strip().rpartition("\n")[2])
            ]

    def run(self, at: str = "reference") -> Path:
        """Return the folder of the run that was trained in a subfolder."""
        found = sorted((self.folder / at / RUN).glob("*/config.yaml"))
        assert len(found) == 1, f"{len(found)} runs in {self.folder / at / RUN}"
        return found[0].parent

    @property
    def tests(self) -> Path:
        """The stem of the test set."""
        return self.corpus / "test"


class FailedError(Exception):
    """A command has failed, and the problem is noted."""


def live(case: Case, corpus: Path, folder: Path) -> Outcome:
    """Run a case. What is refused is left out, and the rest runs again."""
    from heed.launch.compose import compose_with_hydra
    from soak.lives.stages import STAGES, WORDS, examine

    outcome = Outcome(case, case)
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        life = Life(case, corpus, folder)
        with suppress(Exception):  # the processes of the case find most of it composed
            compose_with_hydra(life.overrides)
        refusal = _attempt(life, lambda life: examine(life))
        if refusal is None:
            break
        named = _named(case, refusal)
        outcome.refused.append((" + ".join(named), refusal))
        if not named:
            life.problems.append(f"refused, but no feature is named: {refusal}")
        if life.problems:
            break
        case = replace(case, features=tuple(name for name in case.features if name != named[-1]))
        outcome.seconds += life.seconds
    if not life.problems:
        for stage in case.stages:
            if (refusal := _attempt(life, STAGES[stage])) is None:
                outcome.done.append(stage)
            elif (named := _named(case, refusal)) or any(word in refusal for word in WORDS.get(stage, ())):
                outcome.refused.append((" + ".join((*named, stage)), refusal))
            else:
                life.problems.append(f"{stage}: refused, but no feature is named: {refusal}")
    outcome.problems = life.problems
    outcome.seconds += life.seconds
    outcome.case = case
    if not life.problems:
        shutil.rmtree(folder)
    return outcome


def _attempt(life: Life, act: Callable[[Life], None]) -> str | None:
    """Act, and return the sentence of a refusal."""
    try:
        act(life)
    except RefusedError as refused:
        return str(refused)
    except FailedError:
        pass
    except Exception:
        life.problems.append(f"{getattr(act, '__name__', 'examine')}: {traceback.format_exc()[-900:]}")
    return None


def _named(case: Case, message: str) -> tuple[str, ...]:
    """Return the features whose options or choices a message names."""

    def is_named(word: str) -> bool:
        place, _, value = word.partition("=")
        last = re.split("[./]", place)[-1]
        return place in message or any(len(part) > 4 and part in message for part in (last, value))

    return tuple(name for name in case.features if any(map(is_named, FEATURES[name])))
