"""The program that trains, ``python train.py`` or ``heed train``: its name in messages and its help."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from heed.files import CONF

HEED_TRAIN = "heed train"
DRY_RUN = "--dry-run"

HELP = Path(__file__).with_name("help.txt").read_text(encoding="utf-8").rstrip()


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
