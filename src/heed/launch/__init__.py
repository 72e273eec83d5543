"""Train: compose the configuration, build the parts, fit, test and write the results.

The only package that imports Hydra. Importing it loads neither Hydra nor torch.
"""


def main() -> None:
    """Run ``python train.py …`` with the arguments of the command line."""
    from heed.launch.command import main as run_command

    run_command()
