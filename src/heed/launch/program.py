"""The program that trains, ``python train.py`` or ``heed train``: its name in messages and its help."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

HEED_TRAIN = "heed train"

DRY_RUN = "--dry-run"

CONF = next(
    folder
    for folder in (Path(__file__).parents[3] / "conf", Path(__file__).parents[1] / "conf")
    if (folder / "train.yaml").exists()
)
"""The configuration: the top-level folder of a checkout, or ``heed/conf`` of an installed package."""

HELP = """\
usage: {command} [GROUP=CHOICE | OPTION=VALUE]... [-m] [--config-dir DIR] [--cfg job]

Train a translation model, test it, and write a run folder in runs/ of the working directory.

examples:
  {command} model=transformer                  the built-in corpus
  {command} model=rnn model/attention=additive
  {command} data=files data.src_lang=en data.tgt_lang=de \\
      data.train='[[train.en,train.de]]' data.valid='[[valid.en,valid.de]]' data.test='[[test.en,test.de]]'
  {command} debug=smoke                        any run in seconds, as a test that it works
  {command} -m model=rnn,transformer seed=1,2  a grid of four runs
  {command} resume=true                        continue the newest unfinished run
  {command} resume=runs/NAME/TIME              continue this run, without its other options

groups:
{groups}

  --dry-run         print sizes, steps and memory of the run, and train nothing
  --cfg job         print every option with its value, and train nothing
  --config-dir DIR  use presets of your own: DIR/experiment/mine.yaml is experiment=mine
  -m, --multirun    train a grid: every combination of the values that commas separate

{conf} describes every option."""


def become_heed_train(arguments: Sequence[str]) -> None:
    """Make this process ``heed train`` with these arguments for Hydra, Lightning and messages."""
    sys.argv = [HEED_TRAIN, *arguments]
    # Lightning starts the other processes of a run as `python -m` with the name of this module.
    sys.modules["__main__"].__spec__ = find_spec("heed.launch.__main__")


def command() -> list[str]:
    """Return the words that start this program."""
    return HEED_TRAIN.split() if sys.argv[0] == HEED_TRAIN else [Path(sys.executable).name, sys.argv[0]]


def name() -> str:
    """Return the name of this program in front of messages."""
    return Path(sys.argv[0]).name


def help_text() -> str:
    """Return the answer to ``--help``."""
    groups: dict[str, list[str]] = {}
    for path in sorted(CONF.rglob("*.yaml")):
        group = path.parent.relative_to(CONF).as_posix()
        if not group.startswith((".", "data_", "hydra")):
            groups.setdefault(group, []).append(path.stem)
    width = max(map(len, groups)) + 2
    lines = [f"  {group:<{width}}{' | '.join(choices)}" for group, choices in groups.items()]
    program = HEED_TRAIN if sys.argv[0] == HEED_TRAIN else f"python {name()}"
    return HELP.format(command=program, groups="\n".join(lines), conf=CONF)
