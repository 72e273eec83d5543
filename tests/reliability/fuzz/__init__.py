"""Fuzz test: run the real commands on damaged corpora, model folders, checkpoints, configurations and standard input.

`oracle` checks each case: the command exits with 0, 2 or 130 within the time limit; with 2 it prints a readable message
and no traceback; it leaves no partial file and executes no code from a file. Cases that are valid by construction must
exit with 0.

``tests/reliability/test_fuzz.py`` runs 60 cases, in `make test-full` 3,000. To run more::

    python -m tests.reliability.fuzz --cases 10000 --seed 1
"""
