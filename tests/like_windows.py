"""A process on Linux that lacks what Windows and macOS lack, and that cannot replace or delete its open files.

``python -m tests.like_windows FOLDER OPTION...`` trains a run, stops it with Ctrl-C, resumes it and translates.
"""

import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

LACKING = {
    os: ["sched_getaffinity", "sysconf", "link", "fork", "getuid", "setsid", "killpg"],
    signal: ["SIGUSR1", "SIGUSR2", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGALRM"],
}
"""Names that Windows lacks, apart from ``os.EX_*`` and ``mmap.madvise``; macOS lacks the first."""

SIGNAL = SimpleNamespace(**vars(signal))
"""All names of ``signal``."""


def remove_names() -> None:
    """Remove the names that other systems lack."""
    import asyncio  # noqa: F401  its Unix part needs os.sysconf; Windows has another
    import mmap

    for name in [name for name in dir(os) if name.startswith("EX_")]:
        delattr(os, name)
    for module, names in LACKING.items():
        for name in names:
            delattr(module, name)
    for name in [name for name in dir(mmap) if name.startswith("MADV_")]:
        delattr(mmap, name)

    class Map(mmap.mmap):
        """A memory-mapped file without ``madvise``."""

        def __getattribute__(self, name: str) -> Any:
            if name == "madvise":
                raise AttributeError(name)
            return super().__getattribute__(name)

    mmap.mmap = Map  # type: ignore[misc]


def refuse_open_files(set_function: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let the functions of ``os`` that replace or delete a path fail if this process has it open or mapped.

    Args:
        set_function: called with ``os``, a name and a function; ``monkeypatch.setattr`` undoes it after a test.
    """

    def refusing(function: Callable[..., None]) -> Callable[..., None]:
        def call(*paths: Any, **options: Any) -> None:
            for path in paths:
                if (opened := find_open(Path(path))) is not None:
                    raise PermissionError(13, "The file is open", opened)
            function(*paths, **options)

        return call

    for name in ("replace", "rename", "unlink", "remove", "rmdir"):
        set_function(os, name, refusing(getattr(os, name)))


def find_open(path: Path) -> str | None:
    """Return the path, or a file in it if it is a folder, if this process has it open or mapped; None otherwise."""
    real = os.path.realpath(path)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    opened = [line.split(maxsplit=5)[-1] for line in maps]
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of iterdir()
            opened.append(str(descriptor.readlink()))
    return next((name for name in opened if name == real or name.startswith(f"{real}/")), None)


def main(folder: Path) -> None:
    """Train, stop, resume and translate."""
    os.chdir(folder)
    warnings.filterwarnings("error", category=EncodingWarning, module=r"heed\.")

    from hydra.core.global_hydra import GlobalHydra
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.trainer.connectors import signal_connector

    import heed.launch
    from heed import cli, compat

    signal_connector.signal = SIGNAL  # sys.platform tells Lightning that it may use SIGKILL and SIGUSR1

    class PressCtrlC(Callback):
        """Sends this process SIGINT once, in step 3."""

        pressed = False

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 3 and not PressCtrlC.pressed:
                PressCtrlC.pressed = True
                signal.raise_signal(signal.SIGINT)

    heed.PressCtrlC = PressCtrlC
    compat.WINDOWS = True
    train = [
        "train.py", "hydra.run.dir=run", "trainer=cpu", "+callbacks.press._target_=heed.PressCtrlC", *sys.argv[2:]
    ]  # fmt: skip
    statuses = []
    for options in ([], ["resume=true"]):
        GlobalHydra.instance().clear()
        sys.argv = [*train, *options]
        try:
            heed.launch.main()
            statuses.append(0)
        except SystemExit as stopped:
            statuses.append(stopped.code)
    assert statuses == [130, 0], statuses
    assert cli.main(["translate", "--model", "run", "--input", "source.txt", "--output", "target.txt"]) == 0
    print("−")  # is not in cp1252


if __name__ in ("__main__", "__mp_main__"):  # also in the workers of a pool, which are spawned
    remove_names()
    refuse_open_files()
if __name__ == "__main__":
    main(Path(sys.argv[1]))
