"""Test files that are not collected on some systems, because of what these systems lack; single tests have a marker."""

import sys

POSIX = {
    "cli/test_main.py": "bash, pseudo-terminals",
    "cli/test_translate_files.py": "pseudo-terminals, named pipes, SIGKILL",
    "data/text/formats/test_files.py": "named pipes, links, file modes",
    "test_cache.py": "SIGKILL, file names that are not UTF-8",
    "launch/test_elastic.py": "process groups",
    "reliability/test_fuzz.py": "fork",
    "runs/test_claim.py": "fork, signal.pause",
    "serve/test_server.py": "SIGTERM that a process can handle",
    "sweep/test_search.py": "process groups",
    "sweep/test_study.py": "SIGKILL",
    "test_files.py": "named pipes, /dev",
    "test_manners.py": "sessions, /dev",
    "test_progress.py": "pseudo-terminals",
    "test_project_files.py": "make",
    "training/callbacks/test_signals.py": "SIGTERM that a process can handle",
}
"""What these files need, and Windows lacks."""

LINUX = {
    "data/text/test_preparation.py": "/proc",
    "launch/test_communication.py": "/proc",
    "launch/test_slurm.py": "bash, process groups, /proc",
    "test_bad_input.py": "/dev/full",
    "training/test_memory.py": "/proc",
}
"""What these files need, and Windows and macOS lack."""


def not_collected(platform: str = sys.platform) -> list[str]:
    """Return the files that are not collected on a system."""
    return [*(LINUX if platform != "linux" else ()), *(POSIX if platform == "win32" else ())]
