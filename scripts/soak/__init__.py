"""Soak test: kill training runs at random moments, resume them, and compare them with uninterrupted runs.

Run ``python scripts/soak --help`` from the root of the repository. The test uses only the command line and the files of
run folders. See docs/reliability.md.
"""
