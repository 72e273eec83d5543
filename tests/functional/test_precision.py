"""What autocast would round is rounded once, and only that."""

import pytest
import torch

from heed.functional.precision import for_products


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_is_what_autocast_gives_a_product(dtype: torch.dtype) -> None:
    x = torch.randn(3, 5, dtype=dtype)
    assert for_products(x) is x
    with torch.autocast("cpu", torch.bfloat16):
        assert for_products(x).dtype == (x @ x.T).dtype
        assert torch.equal(for_products(x) @ for_products(x).T, x @ x.T)
