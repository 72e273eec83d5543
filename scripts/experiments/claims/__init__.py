"""The twelve claims about attention, one module each: the claim, the experiment, and when the claim holds."""

from experiments.claims import (
    alignment,
    antecedent,
    context,
    fixed_vector,
    heads,
    order,
    parallel,
    query_key_value,
    scaling,
    score_functions,
    small_data,
    vanishing_gradients,
)

CLAIMS = tuple(
    module.CLAIM
    for module in (
        fixed_vector,
        vanishing_gradients,
        parallel,
        scaling,
        heads,
        order,
        context,
        alignment,
        score_functions,
        small_data,
        query_key_value,
        antecedent,
    )
)
"""In the order in which courses teach them."""
