"""Device code, called by name; the formulas that use it stay free of it.

A family of kernels is a few files: the operation in plain PyTorch, which defines it
(``reference.py``, ``paths_reference.py``), compiled loops for the CPU (``cpu.py``), Triton kernels
for a GPU (``cuda.py``, ``paths_cuda.py``), and one function per operation that chooses between
them (``dispatch.py``, ``paths.py``). All give the same numbers up to rounding; tests hold them to
it. To add an operation, write it in plain PyTorch and call it from ``dispatch.py``; then make it
faster on a device, and choose that where :func:`~npugraph.kernels.dispatch.on_cpu` or
:func:`~npugraph.kernels.dispatch.on_gpu` says so.
"""

from __future__ import annotations

from npugraph.kernels.dispatch import (
    answered,
    distances,
    distances_against,
    gathered_perceptron,
    perceptron_scores,
    products,
)
from npugraph.kernels.reference import TINY, Norm

__all__ = [
    "TINY",
    "Norm",
    "answered",
    "distances",
    "distances_against",
    "gathered_perceptron",
    "perceptron_scores",
    "products",
]
