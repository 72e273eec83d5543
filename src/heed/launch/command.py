"""The commands ``python train.py`` and ``heed train``: Hydra's entry point, exit statuses and error messages."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from omegaconf import DictConfig

from heed.compat import REQUEUE_SIGNAL, REQUEUE_STATUS, print_in_utf8
from heed.launch import program
from heed.launch.errors import JobFailedError, explain_error
from heed.launch.schema import CONF

if TYPE_CHECKING:
    from heed.training.callbacks.pruning import Report


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")
def train(cfg: DictConfig, report: "Report | None" = None) -> list[float] | None:
    """Claim a run folder and train a run there.

    Args:
        report: asks the search of which the run is a trial whether to end it early.

    Returns:
        The objectives of a trial; None if it ended early, and for a run outside a search.
    """
    from heed.launch.folder import claim_folder
    from heed.launch.processes import leave_process_group
    from heed.launch.run import train_one_run
    from heed.launch.trial import objectives, take_sweep_options, trial_callbacks

    sweep = take_sweep_options(cfg)
    with claim_folder(cfg) as folder:
        results = train_one_run(cfg, folder, trial_callbacks(sweep, report))
    leave_process_group()
    return objectives(sweep, results)


def main() -> None:
    """Run the command line. Exit with 2 after an error the user can fix, 130 after an interruption, 75 after SIGUSR1.

    Such an error is printed as a message without a traceback; any other one is raised.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"
    # Schedulers stop a job with SIGTERM: treat it as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if REQUEUE_SIGNAL is not None:  # see heed.training.callbacks.signals
        signal.signal(REQUEUE_SIGNAL, lambda *_: sys.exit(REQUEUE_STATUS))
    print_in_utf8()
    sys.path.append(str(Path.cwd()))  # for classes of the user: +callbacks.mine._target_=my_module.MyCallback
    try:
        train()
    except KeyboardInterrupt:
        sys.exit(130)
    except (Exception, JobFailedError) as raised:
        error = raised.__cause__ if isinstance(raised, JobFailedError) else raised
        assert error is not None
        message = explain_error(error, overrides=sys.argv[1:])
        if message is None:
            raise error from error.__cause__
        print(f"{program.name()}: {message}", file=sys.stderr)
        sys.exit(2)
    finally:
        if "heed.launch.processes" in sys.modules:  # a run has started
            sys.modules["heed.launch.processes"].leave_process_group()
