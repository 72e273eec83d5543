"""Benchmark of heed against other software. ``python scripts/benchmark --help``; one module for each command and peer.

Tokens are counted in the same way for all peers: source and target tokens without padding, including EOS on each side,
without BOS.
"""
