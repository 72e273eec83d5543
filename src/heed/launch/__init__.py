"""Train: compose the configuration, build the parts, fit, test and write the results.

The only package that imports Hydra. Importing it loads neither Hydra nor torch.
"""

import gc
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``python train.py …`` with the arguments of the process, or ``heed train`` with these arguments."""
    from heed.launch import program

    if arguments is not None:
        program.become_heed_train(arguments)
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(program.help_text())
        return
    gc.set_threshold(10_000)  # importing torch and Lightning creates many objects and no garbage
    from heed.launch.command import main as run_command

    run_command()
