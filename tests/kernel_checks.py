"""The Triton kernels against the plain operations, on a GPU or in Triton's interpreter.

The interpreter is chosen when the kernels are imported, so it needs a process of its own:

    TRITON_INTERPRET=1 python tests/kernel_checks.py
"""

import sys

import torch

from npugraph.kernels import distances, gathered_perceptron
from npugraph.kernels.dispatch import on_gpu
from npugraph.kernels.reference import distances_with_gradient
from npugraph.scorers import RotatE

SMALL_DISTANCES = (3, 1, 5, 7), (2, 4, 17, 65), (1, 6, 33, 3), (4, 1, 40, 130)
SMALL_PERCEPTRONS = (3, 5, 7, 4), (2, 33, 65, 9), (1, 16, 64, 2), (4, 40, 130, 50)


def compare(kernel, plain, inputs, slope, tolerance):
    """Both give the same values and the same gradients of all inputs."""
    found = []
    for function in (kernel, plain):
        given = [part.clone().requires_grad_() for part in inputs]
        out = function(*given)
        found.append((out.detach(), *torch.autograd.grad((out * slope).sum(), given)))
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, rtol=tolerance, atol=10 * tolerance)


def check_distances(device, shapes, tolerance):
    rng = torch.Generator().manual_seed(0)
    for groups, share, count, half in shapes:
        points = torch.randn(groups, share, 2 * half, generator=rng).to(device)
        entities = torch.randn(groups, count, 2 * half, generator=rng).to(device)
        entities[0, 0] = points[0, 0]  # where the gap is 0 the gradient must stay finite
        slope = torch.randn(groups, share, count, generator=rng).to(device)
        assert on_gpu(points, entities)
        assert not on_gpu(points.double(), entities)
        compare(
            lambda p, e: distances(p, e, "modulus"),
            lambda p, e: distances_with_gradient(p, e, "modulus"),
            (points, entities),
            slope,
            tolerance,
        )


def check_perceptrons(device, shapes, tolerance):
    rng = torch.Generator().manual_seed(0)
    for rows, count, width, entities in shapes:
        base, weight = (torch.randn(rows, width, generator=rng).to(device) for _ in range(2))
        table = torch.randn(entities, width, generator=rng).to(device)
        table[0], base[0] = 0.0, 0.0  # a unit at 0 is off
        # Rows of the table repeat.
        ids = torch.randint(entities, (rows, count), generator=rng).to(device)
        slope = torch.randn(rows, count, generator=rng).to(device)
        assert on_gpu(base, table, weight)
        compare(
            lambda b, t, w, ids=ids: gathered_perceptron(b, t, ids, w),
            lambda b, t, w, ids=ids: (torch.relu(b.unsqueeze(1) + t[ids]) * w.unsqueeze(1)).sum(2),
            (base, table, weight),
            slope,
            tolerance,
        )


def check_scores(device):
    """Without a gradient every entity is scored as facts are, one by one."""
    rng = torch.Generator().manual_seed(0)
    table, known = (torch.randn(n, 12, generator=rng).to(device) for n in (9, 4))
    relation = torch.randn(4, 6, generator=rng).to(device)
    with torch.no_grad():
        scores = RotatE(3.0).score_all(known, relation, table, "tail")
        each = RotatE(3.0).score(known.unsqueeze(1), relation.unsqueeze(1), table)
    torch.testing.assert_close(scores, each)


if __name__ == "__main__":
    check_distances("cpu", SMALL_DISTANCES, 1e-5)
    check_perceptrons("cpu", SMALL_PERCEPTRONS, 1e-5)
    check_scores("cpu")
    sys.stdout.write("equal\n")
