"""Muon against its formula in float64, and its AdamW groups against torch's AdamW."""

from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from heed.training.muon import Muon, orthogonalize

SETTINGS: dict[str, Any] = {
    "momentum": 0.9,
    "newton_schulz": 5,
    "betas": (0.9, 0.98),
    "eps": 1e-9,
    "weight_decay": 0.1,
    "fused": True,
}


@given(st.integers(1, 17), st.integers(1, 17), st.integers(0, 2**32))
def test_orthogonalize_keeps_singular_vectors_and_makes_singular_values_about_1(
    rows: int, columns: int, seed: int
) -> None:
    torch.manual_seed(seed)
    matrices = torch.randn(3, rows, columns, dtype=torch.float64)
    left, singular_values, right = torch.linalg.svd(matrices, full_matrices=False)
    result = left.mT @ orthogonalize(matrices, 5) @ right.mT
    new_values = result.diagonal(dim1=1, dim2=2)
    assert_close(result, torch.diag_embed(new_values), atol=1e-7, rtol=0)
    large = singular_values > 0.01 * singular_values.norm(dim=1, keepdim=True)
    assert ((new_values > 0.6) & (new_values < 1.3))[large].all()


def test_orthogonalize_of_zeros_is_zeros() -> None:
    assert torch.equal(orthogonalize(torch.zeros(2, 3, 5), 5), torch.zeros(2, 3, 5))


def test_matrices_follow_the_formula_and_other_parameters_follow_adamw() -> None:
    torch.manual_seed(1)
    shapes = [(5, 3), (3, 7), (5, 3)]
    matrices = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    table, vector = nn.Parameter(torch.randn(11, 3)), nn.Parameter(torch.randn(7))
    others = [{"kind": "embedding", "params": [table]}, {"kind": "vector", "params": [vector], "weight_decay": 0.0}]
    optimizer = Muon([{"kind": "matrix", "params": matrices}, *others], lr=0.02, **SETTINGS)
    table2, vector2 = (nn.Parameter(p.detach().clone()) for p in (table, vector))
    adamw = torch.optim.AdamW(
        [{"params": [table2]}, {"params": [vector2], "weight_decay": 0.0}],
        lr=0.02,
        betas=(0.9, 0.98),
        eps=1e-9,
        weight_decay=0.1,
    )
    expected = [m.detach().double() for m in matrices]
    means = [torch.zeros_like(e) for e in expected]
    for _ in range(4):
        for parameter in (*matrices, table, vector):
            parameter.grad = torch.randn_like(parameter)
        table2.grad, vector2.grad = table.grad, vector.grad
        for i, matrix in enumerate(matrices):
            gradient = _grad(matrix).double()
            means[i] = 0.9 * means[i] + 0.1 * gradient
            update = orthogonalize((0.9 * means[i] + 0.1 * gradient)[None], 5)[0]
            expected[i] = (1 - 0.02 * 0.1) * expected[i] - 0.02 * 0.2 * max(gradient.shape) ** 0.5 * update
        optimizer.step()
        adamw.step()
    for matrix, reference in zip(matrices, expected, strict=True):
        assert_close(matrix.detach(), reference.float(), atol=1e-5, rtol=1e-4)
    assert_close(table, table2)
    assert_close(vector, vector2)


def test_a_weight_of_three_dimensions_consists_of_matrices() -> None:
    torch.manual_seed(1)
    weight = nn.Parameter(torch.randn(4, 5, 3))
    matrices = [nn.Parameter(matrix.clone()) for matrix in weight.detach()]
    for params in ([weight], matrices):
        optimizer = Muon([{"kind": "matrix", "params": params}], lr=0.02, **SETTINGS)
        torch.manual_seed(2)
        for gradients in torch.randn(3, 4, 5, 3):
            for parameter, gradient in zip(params, [gradients] if len(params) == 1 else gradients, strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
    assert_close(weight.detach(), torch.stack([matrix.detach() for matrix in matrices]))


def _grad(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
