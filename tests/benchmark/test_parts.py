"""Matrix products, ratios of alternating rounds, and peers that are missing or in processes of their own."""

import torch
from benchmark.matmul import record_products
from benchmark.measure import comparison


def test_products_of_a_linear_layer_with_their_layout() -> None:
    x, weight = torch.randn(3, 5, requires_grad=True), torch.randn(7, 5, requires_grad=True)
    products = record_products(lambda: torch.nn.functional.linear(x, weight).sum().backward())
    # Forward x Wᵀ; backward G W and Gᵀ x.
    assert {(a, b): count for (a, b, *_), count in products.items()} == {
        ((3, 5), (5, 7)): 1,
        ((3, 7), (7, 5)): 1,
        ((7, 3), (3, 5)): 1,
    }


def test_ratios_are_taken_within_rounds() -> None:
    # In the second round the machine is half as fast, for both sides.
    found = comparison([30.0, 15.0, 32.0], [20.0, 10.0, 16.0])
    assert found["ratio"] == 1.5
    assert found["ours"] == 30.0
    assert found["spread"]["ratio"] == (1.5, 2.0)
