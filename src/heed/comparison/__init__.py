"""A comparison of trained systems, computed from their run folders. It draws nothing.

`runs` reads the folders, `models` evaluates the models if they were copied along, and `comparison` computes the
comparison: `pairs` (significance tests), `confounders` (what else differs between the sides) and `breakdown` (scores
by bucket, example sentences).
"""
