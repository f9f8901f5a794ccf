"""CompGCN: convolution where a neighbour is composed with the relation it comes by."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from npugraph.encoders.base import Encoder, Lookup, xavier_normal
from npugraph.encoders.sparse import DistinctFacts, PairedEdges
from npugraph.errors import SettingsError
from npugraph.graph import flip

Composition = Literal["sub", "mult", "corr"]


class CompGCN(Encoder):
    """Composition-based graph convolution (Vashishth et al. 2020).

    A fact (h, r, t) sends phi(x_h, z_r) to t, direction *in*, and phi(x_t, z_{r+R}) to h,
    direction *out*; every entity sends phi(x_e, z_loop) to itself. A layer computes

        s_dir(e) = sum over the edges (u, r) to e of phi(x_u, z_r) / sqrt(deg(e) deg(u))
        x_e' = tanh(BN( (drop(s_in(e) W_in) + drop(s_out(e) W_out) + phi(x_e, z_loop) W_loop) / 3 ))
        z_r' = z_r W_rel

    where phi is subtraction, the product of coordinates, or circular correlation,
    ``corr(x, z)_k = sum_i x_i z_{(i + k) mod d}``. deg(e) counts the edges of the direction that e
    receives, deg(u) those that u sends. (The public code takes the receiving degree for both; what
    an entity sends is lost there where it receives nothing.)

    Messages are added up before the matrix W_dir, once an entity. Neighbours that come by the same
    relation are added up before the composition, once an (entity, relation) pair; correlation is
    a product of coordinates after a Fourier transform of entities and relations.
    """

    def __init__(
        self,
        facts: Tensor,
        tables: Lookup,
        num_relations: int,
        *,
        width: int = 200,
        layers: int = 1,
        composition: Composition = "corr",
        dropout: float = 0.1,
        hidden_dropout: float = 0.3,
        entity_bias: bool = False,
        rng: torch.Generator,
    ) -> None:
        """Build over the collected facts [n, 3].

        Args:
            facts: the collected facts.
            tables: first vectors of E entities and of 2R relations, of one width.
            num_relations: R.
            width: numbers per entity and relation from the first layer on.
            layers: how many convolutions.
            composition: phi.
            dropout: on what each direction brings.
            hidden_dropout: on the entities after each layer.
            entity_bias: whether each entity has one number more, free, at the end.
            rng: the source of the first matrices.
        """
        super().__init__()
        if composition not in get_args(Composition):
            known = ", ".join(get_args(Composition))
            raise SettingsError(f"composition={composition!r} must be one of {known}.")
        if layers < 1:
            raise SettingsError(f"layers={layers} must be 1 or more.")
        self.tables = tables
        num_entities, first = tables.entities.shape
        self.rows = DistinctFacts(facts)
        distinct = self.rows.facts
        back = flip(distinct) + distinct.new_tensor([0, num_relations, 0])
        number = torch.arange(len(distinct), device=distinct.device)
        self.directions = nn.ModuleList(
            PairedEdges(edges, number, num_entities, 2 * num_relations)
            for edges in (distinct, back)
        )
        widths = [first, *([width] * layers)]
        self.layers = nn.ModuleList(
            _Layer(widths[place], width, composition, dropout, rng) for place in range(layers)
        )
        self.hidden_dropout = nn.Dropout(hidden_dropout)
        self.bias = nn.Parameter(torch.zeros(num_entities, 1)) if entity_bias else None

    def step_bytes(self) -> int:
        """What every layer keeps per pair before and after it is composed, and the gradients."""
        width = self.tables.entities.shape[1]
        return 4 * len(self.layers) * sum(edges.step_bytes(width) for edges in self._directions())

    def forward(self, hidden_facts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return (entities [E, width], with the bias [E, width + 1]; relations [2R, width]).

        Args:
            hidden_facts: numbers of facts [b] that must not serve as evidence, or None.
        """
        entities, relations = self.tables()
        seen = self.rows.visible(hidden_facts, entities.dtype)
        weights = [_weights(edges, seen) for edges in self._directions()]
        for layer in self.layers:
            entities, relations = layer(entities, relations, self._directions(), weights)
            entities = self.hidden_dropout(entities)
        if self.bias is not None:
            entities = torch.cat([entities, self.bias], 1)
        return entities, relations

    def _directions(self) -> list[PairedEdges]:
        return [edges for edges in self.directions if isinstance(edges, PairedEdges)]


def _weights(edges: PairedEdges, seen: Tensor) -> Tensor:
    """Return 1 / sqrt(deg(e) deg(u)) for each edge [m]; 0 for a hidden one."""
    seen = seen[edges.edge_fact]
    received = edges.count(seen, edges.edge_entity, edges.num_entities)[edges.edge_entity]
    sent = edges.count(seen, edges.edge_neighbour, edges.num_entities)[edges.edge_neighbour]
    return seen * (received * sent).clamp(min=1).rsqrt()


class _Layer(nn.Module):
    """One convolution of entities [E, w] and relations [2R, w] to width v."""

    def __init__(
        self, first: int, width: int, composition: Composition, dropout: float, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.composition = composition
        self.direction = xavier_normal(2, first, width, rng=rng)
        self.loop = xavier_normal(first, width, rng=rng)
        self.relation = xavier_normal(first, width, rng=rng)
        self.loop_relation = xavier_normal(1, first, rng=rng)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.BatchNorm1d(width)

    def forward(
        self,
        entities: Tensor,
        relations: Tensor,
        directions: list[PairedEdges],
        weights: list[Tensor],
    ) -> tuple[Tensor, Tensor]:
        width, dtype = entities.shape[1], entities.dtype
        senders, ways = self._spectrum(entities, relations)
        total = self._back(self._compose(senders, ways[-1:]), width) @ self.loop
        for edges, weight, matrix in zip(directions, weights, self.direction, strict=True):
            added = self._collect(senders, ways[:-1], edges, weight)
            total = total + self.dropout(self._back(added, width) @ matrix)
        # Under autocast products come in half precision: sums and transforms need it all.
        total = torch.tanh(self.norm((total / 3).to(dtype)))
        return total, (relations @ self.relation).to(dtype)

    def _collect(self, senders: Tensor, ways: Tensor, edges: PairedEdges, weight: Tensor) -> Tensor:
        """Return the weighted sum of what each entity receives: [E, m]."""
        way = _like(edges.relation.take(_real(ways)), ways)
        if self.composition == "sub":
            # The relation is taken away once a neighbour, by its weight: a column of ones tells.
            pairs = edges.gather(nn.functional.pad(senders, (0, 1), value=1.0), weight)
            composed = pairs[:, :-1] - way * pairs[:, -1:]
        else:
            composed = self._compose(_like(edges.gather(_real(senders), weight), senders), way)
        return _like(edges.entity.add_up(_real(composed)), senders)

    def _spectrum(self, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is composed, entities [E, m] and relations with the loop's [2R + 1, m]."""
        relations = torch.cat([relations, self.loop_relation])
        if self.composition != "corr":
            return entities, relations
        return torch.fft.rfft(entities).conj().resolve_conj(), torch.fft.rfft(relations)

    def _compose(self, sender: Tensor, way: Tensor) -> Tensor:
        return sender - way if self.composition == "sub" else sender * way

    def _back(self, composed: Tensor, width: int) -> Tensor:
        return torch.fft.irfft(composed, n=width) if self.composition == "corr" else composed


def _real(values: Tensor) -> Tensor:
    """Return complex numbers [n, m] as real ones [n, 2m]; real ones as they are."""
    return torch.view_as_real(values).flatten(1) if values.is_complex() else values


def _like(values: Tensor, other: Tensor) -> Tensor:
    """Undo :func:`_real` where ``other`` is complex."""
    if not other.is_complex():
        return values
    return torch.view_as_complex(values.reshape(len(values), values.shape[1] // 2, 2))
