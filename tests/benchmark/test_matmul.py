"""The matrix products of a computation."""

import torch
from benchmark.matmul import record_products


def test_products_of_a_linear_layer_with_their_layout() -> None:
    x, weight = torch.randn(3, 5, requires_grad=True), torch.randn(7, 5, requires_grad=True)
    products = record_products(lambda: torch.nn.functional.linear(x, weight).sum().backward())
    # Forward x Wᵀ; backward G W and Gᵀ x.
    assert {(a, b): count for (a, b, *_), count in products.items()} == {
        ((3, 5), (5, 7)): 1,
        ((3, 7), (7, 5)): 1,
        ((7, 3), (3, 5)): 1,
    }
