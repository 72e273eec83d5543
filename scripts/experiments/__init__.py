"""What courses teach about attention, measured: one claim, one experiment, one verdict. Run by scripts/claims.py."""

from experiments import (
    alignment,
    antecedent,
    context,
    cost,
    fixed_vector,
    heads,
    order,
    query_key_value,
    scaling,
    score_functions,
    small_data,
    vanishing,
)

CLAIMS = tuple(
    module.CLAIM
    for module in (
        fixed_vector,
        vanishing,
        cost,
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
"""In the order in which they are taught."""
