"""Kill training runs at random moments, resume them, and compare them with runs that were left alone.

Run it from the root of the repository: ``python scripts/soak --help``. It uses the command line and the files of a
run folder only. See docs/reliability.md.
"""
