"""Experiments about attention on the built-in corpus.

- ``python scripts/experiments`` tests fourteen claims that courses make about attention (`experiments.claims`).
- ``python scripts/experiments/hardness.py`` measures how hard the built-in corpus is.
- ``python scripts/experiments/antecedents.py`` measures attention from pronouns and ambiguous nouns.
"""
