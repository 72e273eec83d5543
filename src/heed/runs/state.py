"""Whether a run trains, has finished, or ended without results."""

from pathlib import Path
from typing import Literal

from heed.runs.claim import is_locked
from heed.runs.results import PRUNED, RESULTS

FAILURE = "failure.txt"
"""Written to the folder of a run that failed: the reason in the first line, then the traceback."""

State = Literal["finished", "pruned", "running", "failed", "interrupted"]


def find_state(run: Path, *, is_running: bool | None = None) -> tuple[State, str]:
    """Return the state of a run, or of a copy of its folder, and why it failed.

    ``is_running`` says whether a process trains there; None: find out.
    """
    if (run / RESULTS).is_file():
        return "finished", ""
    if (run / PRUNED).is_file():
        return "pruned", ""
    if is_locked(run) if is_running is None else is_running:
        return "running", ""
    if (run / FAILURE).is_file():
        return "failed", (run / FAILURE).read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    return "interrupted", ""
