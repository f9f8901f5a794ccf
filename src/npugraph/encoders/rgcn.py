"""R-GCN: convolution with a matrix for each relation, made of a few shared ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from npugraph.encoders.base import Encoder, Lookup, xavier_normal
from npugraph.encoders.sparse import DistinctFacts, PairedEdges, product
from npugraph.errors import SettingsError
from npugraph.graph import flip

# Pairs of one tile of the gradient: on the CPU a tile stays in cache, on a GPU it must fit.
CPU_TILE, GPU_TILE = 512, 2**16


class RGCN(Encoder):
    """Relational graph convolution with basis decomposition (Schlichtkrull et al. 2018).

    A fact (h, r, t) sends h's vector to t by relation r, and t's to h by relation r + R. With
    N_r(e) the entities that send to e by r, a layer computes

        x_e' = sum_r 1/|N_r(e)| sum_{u in N_r(e)} x_u W_r + x_e W_0 + b,
        W_r = sum_k a_rk V_k over a few bases V_k,

    with ReLU and dropout between layers. As the mean over N_r(e) does not depend on the basis,
    it is taken once for each (e, r); the bases then cost one sparse product over pairs each:

        x_e' = sum_k ( sum_r a_rk mean_er ) V_k + x_e W_0 + b.

    Facts that must not serve as evidence are left out in both directions, and the means are over
    the others. Relations keep the vectors of their table; they are the decoder's.
    """

    def __init__(
        self,
        facts: Tensor,
        tables: Lookup,
        num_relations: int,
        *,
        layers: int = 2,
        bases: int = 4,
        dropout: float = 0.2,
        rng: torch.Generator,
    ) -> None:
        """Build over the collected facts [n, 3]; every layer is as wide as the entity table."""
        super().__init__()
        if layers < 1 or bases < 1:
            raise SettingsError(f"layers={layers} and bases={bases} must be 1 or more.")
        self.tables = tables
        num_entities, width = tables.entities.shape
        self.rows = DistinctFacts(facts)
        distinct = self.rows.facts
        number = torch.arange(len(distinct), device=distinct.device)
        back = flip(distinct) + distinct.new_tensor([0, num_relations, 0])
        self.edges = PairedEdges(
            torch.cat([distinct, back]),
            torch.cat([number, number]),
            num_entities,
            2 * num_relations,
        )
        self.layers = nn.ModuleList(
            _Layer(width, 2 * num_relations, bases, rng) for _ in range(layers)
        )
        self.dropout = nn.Dropout(dropout)

    def step_bytes(self) -> int:
        """What every layer keeps per pair, and its gradient."""
        return 2 * len(self.layers) * self.edges.step_bytes(self.tables.entities.shape[1])

    def forward(self, hidden_facts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return (entities [E, d], relations as in the table).

        Args:
            hidden_facts: numbers of facts [b] that must not serve as evidence, or None.
        """
        entities, relations = self.tables()
        weight = self._weights(hidden_facts, entities.dtype)
        for place, layer in enumerate(self.layers):
            if place:
                entities = self.dropout(torch.relu(entities))
            entities = layer(entities, self.edges, weight)
        return entities, relations

    def _weights(self, hidden_facts: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Return 1 over the number of visible edges of its pair for each edge [m]; hidden: 0."""
        edges = self.edges
        seen = self.rows.visible(hidden_facts, dtype)[edges.edge_fact]
        count = edges.count(seen, edges.edge_pair, edges.num_pairs)
        return seen / count.clamp(min=1)[edges.edge_pair]


class _Layer(nn.Module):
    """One convolution, [E, d] to [E, d]."""

    def __init__(self, width: int, num_types: int, bases: int, rng: torch.Generator) -> None:
        super().__init__()
        self.bases = xavier_normal(bases, width, width, rng=rng)
        self.coefficients = xavier_normal(num_types, bases, rng=rng)
        self.own = xavier_normal(width, width, rng=rng)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, entities: Tensor, edges: PairedEdges, weight: Tensor) -> Tensor:
        means = edges.gather(entities, weight)
        share = edges.relation.take(self.coefficients)
        mixed: Tensor = _Mix.apply(means, share, edges)  # type: ignore[no-untyped-call]
        out = mixed.flatten(1) @ self.bases.flatten(0, 1) + entities @ self.own + self.bias
        # Under autocast products come in half precision: the next sparse sum needs it all.
        return out.to(entities.dtype)


class _Mix(torch.autograd.Function):
    """``out[e, k] = sum over the pairs p of e of share[p, k] * means[p]``: [E, k, d].

    No tensor [P, k, d] is made: neither here nor, but for a tile, in the gradient.
    """

    @staticmethod
    def forward(ctx: Any, means: Tensor, share: Tensor, edges: PairedEdges) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(means, share)
        groups = edges.entity
        out = means.new_empty(edges.num_entities, share.shape[1], means.shape[1])
        for basis in range(share.shape[1]):
            value = share[:, basis].contiguous()
            out[:, basis] = product(groups.start, groups.order, value, means)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (means, share), entity = ctx.saved_tensors, ctx.edges.entity.index
        grad = grad.contiguous()
        grad_means, grad_share = torch.empty_like(means), torch.empty_like(share)
        step = CPU_TILE if grad.device.type == "cpu" else GPU_TILE
        for first in range(0, len(means), step):
            part = slice(first, first + step)
            rows = grad.index_select(0, entity[part])
            torch.bmm(rows, means[part].unsqueeze(2), out=grad_share[part].unsqueeze(2))
            torch.bmm(share[part].unsqueeze(1), rows, out=grad_means[part].unsqueeze(1))
        return grad_means, grad_share, None
