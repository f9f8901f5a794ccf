"""Encoders: from ids to representations of every entity and relation."""

from __future__ import annotations

from npugraph.encoders.attention import NeighbourAttention, segment_softmax
from npugraph.encoders.base import Encoder, Lookup
from npugraph.encoders.compgcn import CompGCN
from npugraph.encoders.rgcn import RGCN

__all__ = ["RGCN", "CompGCN", "Encoder", "Lookup", "NeighbourAttention", "segment_softmax"]
