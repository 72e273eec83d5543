"""Train: compose the configuration, build the parts, fit, test and write the results.

Only this package and `heed.sweep` import Hydra. Importing it loads neither Hydra nor torch.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from heed.compat import print_any_character
from heed.errors import HeedError
from heed.launch import program


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``python train.py …`` with the arguments of the process, or ``heed train`` with these arguments.

    Exit with 2 after an error the user can fix, and with 130 after an interruption. Print such an error as a message
    without a traceback, and raise any other one.
    """
    print_any_character()
    if arguments is not None:
        program.become_heed_train(arguments)
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(program.help_text())
        return
    gc.set_threshold(10_000)  # importing torch and Lightning creates many objects and no garbage
    import hydra

    from heed.launch.compose import expand_resume
    from heed.launch.errors import JobFailedError, explain_error, flags_last

    os.environ["HYDRA_FULL_ERROR"] = "1"
    # Schedulers stop a job with SIGTERM: treat it as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.path.append(str(Path.cwd()))  # for classes of the user: +callbacks.mine._target_=my_module.MyCallback
    try:
        task = describe if (is_dry := program.DRY_RUN in sys.argv) else train
        words = flags_last([word for word in sys.argv[1:] if word != program.DRY_RUN])
        sys.argv[1:] = flags_last(expand_resume(words))
        if is_dry and {"-m", "--multirun"} & set(sys.argv):
            raise HeedError(f"{program.DRY_RUN} describes one run: leave out -m.")
        hydra.main(version_base="1.3", config_path=str(program.CONF), config_name="train")(task)()
    except KeyboardInterrupt:
        sys.exit(130)
    except (Exception, JobFailedError) as raised:
        error: BaseException = raised.args[0] if isinstance(raised, JobFailedError) else raised
        if (message := explain_error(error, overrides=sys.argv[1:])) is None:
            if error is raised:
                raise  # with the exception that was handled before, such as the one that made Lightning clean up
            raise error from error.__cause__
        print(f"{program.name()}: {message}", file=sys.stderr)
        sys.exit(2)
    finally:
        if "heed.launch.processes" in sys.modules:  # a run has started
            sys.modules["heed.launch.processes"].leave_process_group()


def describe(cfg: Any) -> None:
    """Print what a run would train (``--dry-run``). Hydra calls this function."""
    from heed.launch.run import describe_run

    print(describe_run(cfg))


def train(cfg: Any, report: Callable[[int, float], bool] | None = None) -> None:
    """Claim a run folder and train a run there. Hydra calls this function with the composed configuration.

    Args:
        report: asks the hyperparameter search whether to prune this run, a trial, at a step with this score.
    """
    # Imported after the configuration is composed, so that a wrong option is reported before torch is imported.
    from heed.launch.folder import claim_folder
    from heed.launch.run import check_grid, take_pruning, train_one_run

    check_grid()
    callbacks = take_pruning(cfg, report)
    with claim_folder(cfg) as folder:
        train_one_run(cfg, folder, callbacks)
