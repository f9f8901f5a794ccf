"""What a trained system says about facts it never saw, as a table of numbers.

A raw score means different things for different relations and entities. Each fact is therefore
also compared with other answers to the same two questions, (h, r, ?) and (?, r, t): with entities
drawn at random, and with entities that are seen in this role, i.e. at this end of this relation.
The comparison sets are samples of fixed size, so the cost is linear in the number of facts: no
query is ever compared with all entities.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import torch
from torch import Tensor

from npugraph.graph import SIDES, KnowledgeGraph, Side, flip
from npugraph.model import Model
from npugraph.seeds import generator


class Column(IntEnum):
    """The features of one question: where each stands."""

    SCORE = 0
    # The score beside that of other answers: any entity, and those of the role.
    GAP_ANY = 1
    GAP_ROLE = 2
    # Which share of them scores as high.
    ABOVE_ANY = 3
    ABOVE_ROLE = 4
    # How many answers the question has, how often the answer is seen in this role, and at all.
    ANSWERS = 5
    ROLE_COUNT = 6
    DEGREE = 7


FEATURES = (
    *(f"{column.name.lower()}_{side}" for side in SIDES for column in Column),
    "relation_count",
)
# Queries that are scored against their comparison sets at once.
CHUNK = 8192


class Comparer:
    """Compares facts with other answers, given the facts that a system was trained on."""

    def __init__(
        self, system: Model, train: KnowledgeGraph, size: int, rng: torch.Generator
    ) -> None:
        """Draw ``size`` entities for all questions, and a seed for those of each role."""
        self.system = system
        self.size = size
        self.num_relations = train.num_relations
        device = system.device
        facts = train.facts.to(device)
        self.seed = int(torch.randint(2**62, (), generator=rng))
        self.any = torch.randperm(train.num_entities, generator=rng)[:size].sort().values.to(device)
        self.degree = torch.bincount(facts[:, [0, 2]].flatten(), minlength=train.num_entities)
        self.relation_count = torch.bincount(facts[:, 1], minlength=train.num_relations)
        # By side: facts as (known, relation, answer), in the order of their relation.
        self.facts = {
            side: by_relation(facts if side == "tail" else flip(facts), train.num_relations)
            for side in SIDES
        }

    @torch.no_grad()
    def features(self, facts: Tensor, more: Tensor | None = None) -> Tensor:
        """Return the features of facts [n, 3]: float32 [n, len(FEATURES)].

        ``more`` [n, 2] answers to the questions of SIDES count beside the stored ones.
        """
        facts = facts.to(self.system.device)
        self.system.eval()
        columns = [self._side(facts, side) for side in SIDES]
        if more is not None:
            _add_answers(columns, more.to(facts.device))
        counts = torch.log1p(self.relation_count[facts[:, 1]].float())
        return torch.cat([*columns, counts.unsqueeze(1)], 1)

    def _side(self, facts: Tensor, side: Side) -> Tensor:
        """Return the features of one question [n, len(Column)]."""
        asked = facts if side == "tail" else flip(facts)
        out = torch.zeros(len(facts), len(Column), device=facts.device)
        out[:, Column.SCORE] = torch.cat(
            [self.system.score_as(part, side) for part in torch.split(facts, 2**16)]
        )
        out[:, Column.DEGREE] = torch.log1p(self.degree[asked[:, 2]].float())
        order = torch.argsort(asked[:, 1], stable=True)
        for relation, rows in _runs(asked[:, 1], order, self.num_relations):
            self._relation(relation, side, rows, asked, out)
        return out

    def _relation(
        self, relation: int, side: Side, rows: Tensor, asked: Tensor, out: Tensor
    ) -> None:
        """Fill the features of the facts ``rows`` of one relation."""
        facts, start = self.facts[side]
        own = facts[start[relation] : start[relation + 1]]
        out[rows, Column.ANSWERS] = torch.log1p(_count(own[:, 0], asked[rows, 0]))
        out[rows, Column.ROLE_COUNT] = torch.log1p(_count(own[:, 2], asked[rows, 2]))
        seen = self._seen(own, relation, side)
        among = torch.cat([self.any, seen])
        for mine in torch.split(rows[torch.argsort(asked[rows, 0], stable=True)], CHUNK):
            queries, of_row = torch.unique(asked[mine, 0], return_inverse=True)
            table = self.system.score_among(
                queries, queries.new_full((), relation).expand_as(queries), side, among
            )
            stored = [stored_answers(own, queries, entities) for entities in (self.any, seen)]
            table = table.float().masked_fill(torch.cat(stored, 1), -torch.inf)
            self._compare(table[of_row], mine, asked[mine, 2], among, out)

    def _seen(self, own: Tensor, relation: int, side: Side) -> Tensor:
        """Return at most ``size`` of the answers of a relation's facts [n, 3], sorted: [k]."""
        seen: Tensor = torch.unique(own[:, 2])
        if len(seen) <= self.size:
            return seen
        # Of its own seed, so that a fact's features do not depend on what else is asked.
        rng = generator(self.seed, side, relation)
        pick = torch.randperm(len(seen), generator=rng)[: self.size].sort().values
        chosen: Tensor = seen[pick.to(seen.device)]
        return chosen

    def _compare(
        self, table: Tensor, rows: Tensor, target: Tensor, among: Tensor, out: Tensor
    ) -> None:
        """Fill gaps and shares from scores [b, k] of other answers; the target itself is none."""
        table = table.masked_fill(among == target.unsqueeze(1), -torch.inf)
        score = out[rows, Column.SCORE].unsqueeze(1)
        for part, gap_at, above_at in (
            (table[:, : len(self.any)], Column.GAP_ANY, Column.ABOVE_ANY),
            (table[:, len(self.any) :], Column.GAP_ROLE, Column.ABOVE_ROLE),
        ):
            counted = (part > -torch.inf).sum(1)
            level = torch.logsumexp(part, 1) - torch.log(counted.clamp(min=1).float())
            gap = torch.where(counted > 0, score.squeeze(1) - level, score.squeeze(1))
            above = (part >= score).sum(1)
            out[rows, gap_at] = gap
            out[rows, above_at] = torch.log((above + 0.5) / (counted + 1.0))


def _add_answers(columns: list[Tensor], more: Tensor) -> None:
    """Count further answers [n, 2] in the features of both questions [n, len(Column)]."""
    for side, further in enumerate(more.T):
        # They are answers of the one question, and facts of its known entity, which is the answer
        # of the other.
        for of, counted in (
            (side, (Column.ANSWERS,)),
            (1 - side, (Column.ROLE_COUNT, Column.DEGREE)),
        ):
            for column in counted:
                values = columns[of][:, column]
                columns[of][:, column] = torch.log1p(torch.expm1(values) + further)


def stored_answers(facts: Tensor, queries: Tensor, entities: Tensor) -> Tensor:
    """Tell which entities are stored answers of which questions of one relation: bool [q, k].

    Args:
        facts: the relation's facts as (known, relation, answer) [n, 3].
        queries: known entities [q], sorted.
        entities: possible answers [k], sorted.
    """
    # A chunk of questions is a range of ids: most facts of a large relation are none of its.
    facts = facts[(facts[:, 0] >= queries[0]) & (facts[:, 0] <= queries[-1])]
    row, asked = _find(queries, facts[:, 0])
    column, listed = _find(entities, facts[:, 2])
    held = asked & listed
    mask = torch.zeros(len(queries), len(entities), dtype=torch.bool, device=facts.device)
    mask[row[held], column[held]] = True
    return mask


def _find(ids: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return where each wanted id [n] would stand among sorted ids, and whether it is there."""
    place = torch.searchsorted(ids, wanted.contiguous()).clamp(max=len(ids) - 1)
    return place, ids[place] == wanted


def _count(values: Tensor, wanted: Tensor) -> Tensor:
    """Count how often each wanted id [m] is among the values [n]: float32 [m]."""
    values, wanted = values.sort().values, wanted.contiguous()
    before = torch.searchsorted(values, wanted)
    return (torch.searchsorted(values, wanted, right=True) - before).float()


def by_relation(asked: Tensor, num_relations: int) -> tuple[Tensor, list[int]]:
    """Sort facts [n, 3] by relation; return them and where each relation starts [R + 1]."""
    order = torch.argsort(asked[:, 1], stable=True)
    facts = asked[order]
    bounds = torch.arange(num_relations + 1, device=facts.device)
    return facts, torch.searchsorted(facts[:, 1].contiguous(), bounds).tolist()


def _runs(relation: Tensor, order: Tensor, num_relations: int) -> Iterator[tuple[int, Tensor]]:
    """Yield each relation that occurs, with the places [b] of its facts."""
    counts = torch.bincount(relation, minlength=num_relations).tolist()
    first = 0
    for number, count in enumerate(counts):
        if count:
            yield number, order[first : first + count]
        first += count
