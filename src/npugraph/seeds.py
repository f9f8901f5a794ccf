"""Every random draw comes from a generator made from (seed, purpose)."""

from __future__ import annotations

import hashlib

import torch


def number(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit number that depends on the seed and on every part of the purpose.

    >>> number(0, "split") == number(0, "split"), number(0, "split") == number(1, "split")
    (True, False)
    """
    text = "\x1f".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(
    seed: int, *purpose: str | int, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Return a generator of its own for one purpose, so that draws never share a stream."""
    return torch.Generator(device=device).manual_seed(number(seed, *purpose))
