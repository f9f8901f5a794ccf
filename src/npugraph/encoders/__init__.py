"""Encoders: from ids to representations of every entity and relation."""

from __future__ import annotations

from npugraph.encoders.attention import NeighbourAttention, segment_softmax
from npugraph.encoders.base import Encoder, Lookup

__all__ = ["Encoder", "Lookup", "NeighbourAttention", "segment_softmax"]
