"""What `scripts/bench.py` is made of: one module per command, one per peer.

Tokens are counted in one way: source and target tokens that are not padding, EOS included on each side, BOS on none.
"""
