"""Inner products of queries and entities: what is done for speed does not change them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from npu_literal import generator
from npugraph.kernels.cuda import ALIGNED, aligned_products


@pytest.mark.parametrize("count", [1, ALIGNED - 1, ALIGNED, ALIGNED + 5])
def test_products_with_some_rows_more_are_the_plain_products(count: int) -> None:
    rng = generator(count)
    query, entities = (torch.randn(n, 5, generator=rng).double() for n in (4, count))
    slope = torch.randn(4, count, generator=rng).double()
    plain: Callable[..., Tensor] = lambda q, e: q @ e.T  # noqa: E731
    found = []
    for function in (aligned_products, plain):
        inputs = query.clone().requires_grad_(), entities.clone().requires_grad_()
        out = function(*inputs)
        assert out.shape == (4, count)
        found.append((out.detach(), *torch.autograd.grad((out * slope).sum(), inputs)))
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected)
