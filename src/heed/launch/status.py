"""Lines on the terminal about a run's progress."""

import sys


def print_status(text: str) -> None:
    """Print to stderr, in the first process of a run only."""
    from lightning.pytorch.utilities import rank_zero_only  # takes seconds to import

    if rank_zero_only.rank in (None, 0):
        print(text, file=sys.stderr, flush=True)
