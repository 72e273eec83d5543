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
    gc.set_threshold(10_000)  # torch and Lightning make half a million objects and no garbage: start 10 % faster
    from heed.launch.command import main as run_command

    run_command()
