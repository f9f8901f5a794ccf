"""The Triton kernels against the plain operations, in Triton's interpreter (no GPU needed)."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install triton")

CHECK = """
import torch
from npugraph import gpu
from npugraph.scorers.distance import TINY, RotatE, _distances_with_gradient, distances

rng = torch.Generator().manual_seed(0)
for groups, share, count, half in ((3, 1, 5, 7), (2, 4, 17, 65), (1, 6, 33, 3), (4, 1, 40, 130)):
    points = torch.randn(groups, share, 2 * half, generator=rng)
    entities = torch.randn(groups, count, 2 * half, generator=rng)
    entities[0, 0] = points[0, 0]  # where the gap is 0 the gradient must stay finite
    slope = torch.randn(groups, share, count, generator=rng)
    found = []
    for function in (distances, _distances_with_gradient):
        inputs = points.clone().requires_grad_(), entities.clone().requires_grad_()
        out = function(*inputs, "modulus")
        found.append((out.detach(), *torch.autograd.grad((out * slope).sum(), inputs)))
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)
    assert gpu.usable(points, entities)
    assert not gpu.usable(points.double(), entities)
table = torch.randn(9, 12, generator=rng)
known, relation = torch.randn(4, 12, generator=rng), torch.randn(4, 6, generator=rng)
with torch.no_grad():
    scores = RotatE(3.0).score_all(known, relation, table, "tail")
    each = RotatE(3.0).score(known.unsqueeze(1), relation.unsqueeze(1), table)
torch.testing.assert_close(scores, each)
print("equal")
"""


def test_kernels_equal_the_plain_operations_in_the_interpreter():
    # The interpreter is chosen when the kernels are imported, so in a process of its own.
    done = subprocess.run(
        [sys.executable, "-c", CHECK],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "equal"
