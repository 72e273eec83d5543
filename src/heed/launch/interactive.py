"""Train and check a corpus from Python and notebooks: `heed.train` and `heed.check`."""

import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heed import launch
from heed.launch import program
from heed.launch.check import check
from heed.launch.compose import compose, expand_resume, flags_last, quote
from heed.launch.errors import explained
from heed.launch.processes import leave_process_group
from heed.runs.trained import TrainedRun
from heed.training.callbacks.stopping import SIGNALS, Interrupted


def train(*overrides: str, **options: Any) -> TrainedRun:
    """Train a model as ``heed train`` does, and return the finished run.

    The first Ctrl-C, or "Interrupt" in a notebook, saves a checkpoint; ``heed.train(resume=RUN)`` continues the run. A
    second one ends the whole process.

    Args:
        overrides: as on the command line: ``"model=rnn"``, ``"trainer.max_steps=100"``.
        options: the same as arguments: ``model="rnn"``, ``**{"data.train": [["a.en", "a.de"]]}``.

    Raises:
        HeedError: if the command would end with a message for the user.
        KeyboardInterrupt: if the run was interrupted.
    """
    try:
        with _as_command(overrides, options) as words, explained(words):
            run = launch.train(compose(expand_resume(words)))
            assert run is not None  # only a search ends a run early
            return run
    except Interrupted as interrupted:
        raise KeyboardInterrupt from interrupted
    finally:
        leave_process_group()


def check_corpus(
    *overrides: str, lines: str | Path | None = None, write: str | Path | None = None, **options: Any
) -> list[str]:
    """Return what ``heed check`` prints about a corpus: sizes, and one line for each fault (`heed.check`).

    Args:
        overrides, options: as for `train`: ``data="files"``, ``**{"data.train": [["a.en", "a.de"]]}``.
        lines: file for a table of all faulty lines, and of those that cleaning drops.
        write: folder for the pairs that cleaning keeps.

    Raises:
        HeedError: if an option is wrong, the data cannot be read, or ``lines`` or ``write`` exists.
    """
    with _as_command(overrides, options) as words:
        table, folder = (None if path is None else Path(path) for path in (lines, write))
        return list(check(words, lines=table, write=folder))


@contextmanager
def _as_command(overrides: Sequence[str], options: Mapping[str, Any]) -> Iterator[list[str]]:
    """Let this process be ``heed train`` inside the block, for messages and Lightning's processes; yield its words."""
    words = flags_last([*overrides, *(f"{name}={quote(value)}" for name, value in options.items())])
    main, argv = sys.modules["__main__"], sys.argv
    spec, handlers = getattr(main, "__spec__", None), {number: signal.getsignal(number) for number in SIGNALS}
    program.become_heed_train(words)
    try:
        yield words
    finally:
        sys.argv, main.__spec__ = argv, spec
        if threading.current_thread() is threading.main_thread():  # Lightning leaves those of a run
            for number, handler in handlers.items():
                signal.signal(number, handler)
