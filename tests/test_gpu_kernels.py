"""The Triton kernels against the plain operations, in Triton's interpreter (no GPU needed)."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install triton")

CHECK = """
import torch
from npugraph import gpu
from npugraph.scorers import gathered_perceptron
from npugraph.scorers.distance import RotatE, _distances_with_gradient, distances

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

shapes = (3, 5, 7, 4), (2, 33, 65, 9), (1, 16, 64, 2), (4, 40, 130, 50)
for rows, count, width, entities in shapes:
    base, weight = (torch.randn(rows, width, generator=rng) for _ in range(2))
    table = torch.randn(entities, width, generator=rng)
    table[0], base[0] = 0.0, 0.0  # a unit at 0 is off
    ids = torch.randint(entities, (rows, count), generator=rng)  # rows of the table repeat
    slope = torch.randn(rows, count, generator=rng)
    found = []
    for kernel in (True, False):
        inputs = [part.clone().requires_grad_() for part in (base, table, weight)]
        if kernel:
            out = gathered_perceptron(inputs[0], inputs[1], ids, inputs[2])
        else:
            hidden = torch.relu(inputs[0].unsqueeze(1) + inputs[1][ids])
            out = (hidden * inputs[2].unsqueeze(1)).sum(2)
        found.append((out.detach(), *torch.autograd.grad((out * slope).sum(), inputs)))
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)
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
