"""The fourteen claims about attention, one module each: the claim, the experiment, and when the claim holds."""

from importlib import import_module

from experiments.claim import Claim

NAMES = (
    "fixed_vector", "vanishing_gradients", "parallel", "scaling", "heads", "order", "context", "alignment",
    "score_functions", "small_data", "query_key_value", "antecedent", "forcing", "pruning",
)  # fmt: skip
"""In the order in which courses teach them."""
CLAIMS: tuple[Claim, ...] = tuple(import_module(f"experiments.claims.{name}").CLAIM for name in NAMES)
