"""A comparison of trained systems, computed from their run folders. It draws nothing.

`runs` reads the folders, and `comparison` computes the comparison: scores by bucket, example sentences, `pairs`
(significance tests) and `confounders` (what else differs between the sides). `challenge` evaluates the models if they
were copied along.
"""
