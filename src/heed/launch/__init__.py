"""Train: compose the options of a command, settle its plan, train it, test and write the results.

Only this package and `heed.sweep` import Hydra. Importing it loads neither Hydra nor torch.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.compat import print_any_character
from heed.errors import HeedError
from heed.files import CONF

if TYPE_CHECKING:
    from heed.launch.compose import Command
    from heed.runs.trained import TrainedRun


HEED_TRAIN = "heed train"
DRY_RUN = "--dry-run"

HELP = Path(__file__).with_name("help.txt").read_text(encoding="utf-8").rstrip()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``python train.py …`` with the arguments of the process, or ``heed train`` with these arguments.

    Exit with 2 after an error the user can fix, and with 130 after an interruption. Print such an error as a message
    without a traceback, and raise any other one.
    """
    print_any_character()
    if arguments is not None:
        become_heed_train(arguments)
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(help_text())
        return
    gc.set_threshold(10_000)  # importing torch and Lightning creates many objects and no garbage
    from heed.launch.compose import compose, expand, flags_last
    from heed.launch.errors import JobFailedError, explain_error

    os.environ["HYDRA_FULL_ERROR"] = "1"
    # Schedulers stop a job with SIGTERM: treat it as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.path.append(str(Path.cwd()))  # for classes of the user: +callbacks.mine._target_=my_module.MyCallback
    words = sys.argv[1:]
    try:
        is_dry = DRY_RUN in words
        words = flags_last([word for word in words if word != DRY_RUN])
        words = flags_last(expand(words))
        sys.argv[1:] = words
        flags = [word for word in words if word.startswith("-")]
        if is_dry and flags:
            raise HeedError(f"{DRY_RUN} describes one run: leave out {flags[0]}.")
        if flags:
            run_hydra()
        elif is_dry:
            print(describe(compose(words)))
        else:
            train(compose(words))
    except KeyboardInterrupt:
        sys.exit(130)
    except (Exception, JobFailedError) as raised:
        error: BaseException = raised.args[0] if isinstance(raised, JobFailedError) else raised
        if (message := explain_error(error, overrides=words)) is None:
            if error is raised:
                raise  # with the exception that was handled before, such as the one that made Lightning clean up
            raise error from error.__cause__
        print(f"{program_name()}: {message}", file=sys.stderr)
        sys.exit(2)
    finally:
        if "heed.launch.processes" in sys.modules:  # a run has started
            sys.modules["heed.launch.processes"].leave_process_group()


def run_hydra() -> None:
    """Let Hydra read the command line of this process: ``-m`` starts the jobs of a grid or study, ``--cfg`` prints."""
    import hydra

    from heed.launch.grid import run_job

    hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")(run_job)()


def describe(command: "Command") -> str:
    """Return what a run would train (``--dry-run``)."""
    from heed.launch.finish import describe_run
    from heed.launch.plan import settle
    from heed.launch.run import build

    options = {**command.options, "logger": {}, "resume": False}
    plan = settle(replace(command, options=options))
    return describe_run(*build(plan, Path("unused")), options=command.differences, auto=plan.auto)


def train(
    command: "Command", report: Callable[[int, float], bool] | None = None, **options: Any
) -> "TrainedRun | None":
    """Claim a run folder, settle the plan of a command, and train it there; see `heed.launch.run.train`."""
    # Imported after the options are composed, so that a wrong one is reported before torch is imported.
    from heed.launch.plan import settle
    from heed.launch.processes import claim_folder
    from heed.launch.run import train as train_plan

    with claim_folder(command) as folder:
        return train_plan(settle(command, folder), folder, report=report, **options)


# ---- the program: `python train.py` or `heed train`


def become_heed_train(arguments: Sequence[str]) -> None:
    """Make this process ``heed train`` with these arguments for Hydra, Lightning and messages."""
    sys.argv = [HEED_TRAIN, *arguments]
    # Lightning starts the other processes of a run as `python -m` with the name of this module.
    sys.modules["__main__"].__spec__ = find_spec("heed.launch.__main__")


def program_words() -> list[str]:
    """Return the words that start this program."""
    return HEED_TRAIN.split() if sys.argv[0] == HEED_TRAIN else [Path(sys.executable).name, sys.argv[0]]


def program_name() -> str:
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
    program = HEED_TRAIN if sys.argv[0] == HEED_TRAIN else f"python {program_name()}"
    return HELP.format(command=program, groups="\n".join(lines), conf=CONF)
