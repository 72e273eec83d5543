"""Benchmark heed against other software: ``python scripts/benchmark --help``. Each command and peer has a module.

Tokens are counted in the same way for all peers: source and target tokens without padding, including EOS on each side,
without BOS.
"""
