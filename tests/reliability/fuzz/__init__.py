"""Fuzz test: damaged corpora, model folders, checkpoints, configurations and standard input, through the real commands.

The property, checked by `oracle`: a command exits with 0, 2 or 130 within its time limit; with 2 it prints a readable
sentence and no traceback; it leaves no half-written file and executes no code that a file contains. Cases that are
valid by construction exit with 0.

The suite runs a few hundred cases (``tests/reliability/test_fuzz.py``). For a long run by hand::

    python -m tests.reliability.fuzz --cases 10000 --seed 1
"""
