"""What was meant instead of a suspect fact: learned from errors that are made for the purpose.

An end of a stored fact is replaced, so what was meant is known. It stands beside the error, as
where somebody adds a wrong fact, or it is gone, as where somebody overwrites a right one; half of
the errors are of either sort. Each end of an error gives two options at most: the only other stored
answer to its question, and the best answer that is not stored. A classifier learns which option is
right. It is tested on errors of folds that it was not trained on, and that are as suspicious as the
list of suspects: what is easy to correct is not always easy to find.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.arrays import first_of_each
from npugraph.auditing.features import by_relation
from npugraph.auditing.missing import best_new, role_of
from npugraph.auditing.out_of_fold import CrossFit
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.evidence import TruthModel
from npugraph.auditing.statistics.trees import Trees
from npugraph.data.corrupt import HEAD, TAIL, Noise, Roles
from npugraph.data.corrupt.replace import entity, put
from npugraph.graph import KnowledgeGraph, Side, flip
from npugraph.model import Model
from npugraph.seeds import generator, number

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
# The kinds of errors with one wrong end: by any entity, and by one of that role.
ONE_END: tuple[Noise, ...] = ("one-sided", "typed")
# Questions with more answers than this look alike.
MANY = 5
# The trees that tell right options from others, and the fewest right ones to learn from.
ROUNDS, LEAVES, LEAST_RIGHT = 60, 15, 20
# What an error counts that is less suspicious than the suspects, and the fewest corrections that
# are a test.
LESS_SUSPICIOUS, LEAST_PROPOSED = 0.1, 10


@dataclass(frozen=True)
class CorrectionTest:
    """What became of errors that were made to test corrections.

    Attributes:
        tried: errors that are as suspicious as the suspects.
        proposed: the share of them that a correction was proposed for.
        right: the share of right ones among these; where errors of other kinds seem to be stored,
            which have no one wrong end, it is less by their share.
    """

    tried: int = 0
    proposed: float = 0.0
    right: float = 0.0


@dataclass(frozen=True)
class Meant:
    """What may be meant instead of a fact.

    Attributes:
        side: the end that is replaced.
        entity: what is put there.
        stored: whether the fact that it makes is stored: then there is nothing to add.
    """

    side: Side
    entity: int
    stored: bool


@dataclass(frozen=True)
class Corrector:
    """Proposes corrections.

    Attributes:
        trees: tell right options from others; None where there was nothing to learn from.
        test: how often it was right.
    """

    trees: Trees | None
    test: CorrectionTest

    def propose(
        self, crossfit: CrossFit, rows: Ints, settings: AuditSettings
    ) -> list[Meant | None]:
        """Return what may be meant instead of some collected facts, by their places [n]."""
        found: list[Meant | None] = [None] * len(rows)
        if self.trees is None:
            return found
        judged, graph = crossfit.collected, crossfit.folds.graph
        asker = _Asker(crossfit, settings)
        for fold in range(crossfit.folds.count):
            mine = np.flatnonzero(judged.fold.numpy()[rows] == fold)
            facts, features = judged.facts[rows[mine]], judged.features[rows[mine]]
            options = asker.options(fold, graph.facts, facts, features)
            if not len(options.of):
                continue
            chance = self.trees.probability(options.features.numpy())
            for place in _best(chance, options.of.numpy()):
                if chance[place] >= settings.thresholds.least_corrected:
                    found[mine[options.of[place]]] = options.meant(place)
        return found


def one_ended(weight: Mapping[str, float]) -> float:
    """Return the share of the wrong facts with one wrong end, by the weight of each pool."""
    total = sum(weight.values())
    ones = sum(each for pool, each in weight.items() if pool.partition(",")[0] in ONE_END)
    return ones / total if total else 0.0


def learn_corrections(crossfit: CrossFit, model: TruthModel, settings: AuditSettings) -> Corrector:
    """Make errors, and learn and test which of their options are right."""
    made = _join(list(_made_errors(crossfit, model, settings)))
    tried = int(made.listed.sum())
    if made.right.sum() < LEAST_RIGHT or made.right.all():
        return Corrector(None, CorrectionTest(tried))
    features = made.options.features.numpy()
    of = made.options.of.numpy()
    weight = np.where(made.listed[of], 1.0, LESS_SUSPICIOUS)

    def fit(rows: Bools) -> Trees:
        return Trees.fit(
            features[rows],
            made.right[rows],
            weight[rows],
            rounds=ROUNDS,
            leaves=LEAVES,
            seed=number(settings.seed, "corrections") % 2**31,
        )

    chance = np.zeros(len(of))
    for one in np.unique(made.fold):
        mine = made.fold[of] == one
        chance[mine] = fit(~mine).probability(features[mine])
    shown = _best(chance, of)
    shown = shown[(chance[shown] >= settings.thresholds.least_corrected) & made.listed[of[shown]]]
    share = 0.0
    if len(shown) >= LEAST_PROPOSED:
        share = float(made.right[shown].mean()) * one_ended(model.profile.weight)
    test = CorrectionTest(tried, len(shown) / max(tried, 1), share)
    return Corrector(fit(np.ones(len(of), dtype=bool)), test)


def _best(chance: Floats, of: Ints) -> Ints:
    """Return the place of the best option of each fact that has any."""
    order = np.lexsort((-chance, of))
    return order[np.unique(of[order], return_index=True)[1]]


@dataclass(frozen=True)
class _Options:
    """Options of some facts, one row each.

    Attributes:
        of: int64 [m], the number of the fact.
        end: int64 [m], HEAD or TAIL.
        entity: int64 [m], what is put there.
        stored: bool [m], whether the fact that it makes is stored.
        features: float32 [m, f].
    """

    of: Tensor
    end: Tensor
    entity: Tensor
    stored: Tensor
    features: Tensor

    def meant(self, place: int) -> Meant:
        """Return one of them."""
        side: Side = "head" if self.end[place] == HEAD else "tail"
        return Meant(side, int(self.entity[place]), bool(self.stored[place]))


@dataclass(frozen=True)
class _Errors:
    """Errors that were made to learn from.

    Attributes:
        fold: int64 [n].
        listed: bool [n], whether they are as suspicious as the suspects.
        options: of all of them, m in all.
        right: bool [m], which options are what was meant.
    """

    fold: Ints
    listed: Bools
    options: _Options
    right: Bools


def _join(parts: list[_Errors]) -> _Errors:
    """Return the errors of all parts, numbered on."""
    before = np.cumsum([0, *(len(part.fold) for part in parts)])
    of = [part.options.of + int(count) for part, count in zip(parts, before[:-1], strict=True)]
    columns = zip(*(dataclasses.astuple(part.options)[1:] for part in parts), strict=True)
    fold, listed, right = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("fold", "listed", "right")
    )
    options = _Options(torch.cat(of), *(torch.cat(column) for column in columns))
    return _Errors(fold, listed, options, right)


def _made_errors(
    crossfit: CrossFit, model: TruthModel, settings: AuditSettings
) -> Iterator[_Errors]:
    """Yield errors fold by fold: beside the facts that they are made of, and in their place."""
    folds, known, asker = crossfit.folds, crossfit.folds.index(), _Asker(crossfit, settings)
    stored = folds.graph.facts
    roles = Roles(stored, known.num_entities, known.num_relations)
    wanted = settings.thresholds.corrected_facts // (2 * folds.count)
    last = np.sort(model.stack.collected)[: settings.budget].max()
    for fold in range(folds.count):
        for gone in (False, True):
            rng = generator(settings.seed, "errors with one wrong end", fold, gone)
            # What is gone was never seen by the system that judges the error.
            some = torch.nonzero((folds.fold == fold) == gone).squeeze(1)
            some = some[torch.randperm(len(some), generator=rng)[:wanted]]
            parts = zip(ONE_END, some.tensor_split(len(ONE_END)), strict=True)
            made = torch.cat([entity(kind, roles)(stored[part], rng)[0] for kind, part in parts])
            fresh = first_of_each(known.codes(made))
            fresh = fresh[~known.contains(made[fresh])]
            wrong, meant = made[fresh], stored[some[fresh]]
            left = torch.ones(len(stored), dtype=torch.bool)
            left[some] = not gone
            features = torch.cat([view.features(wrong, fold) for view in crossfit.views], 1)
            options = asker.options(fold, torch.cat([stored[left], wrong]), wrong, features)
            fixed = put(wrong[options.of], options.end, options.entity)
            right = (fixed == meant[options.of]).all(1).numpy()
            of_fold = np.full(len(wrong), fold)
            listed = model.stack.score(features.numpy(), of_fold) <= last
            yield _Errors(of_fold, listed, options, right)


class _Asker:
    """Lists the options of facts of one graph."""

    def __init__(self, crossfit: CrossFit, settings: AuditSettings) -> None:
        """Look once through the graph."""
        self.systems = crossfit.systems
        self.num_relations = crossfit.folds.graph.num_relations
        self.role_entities = settings.thresholds.role_entities
        self.single = single_answers(crossfit.folds.graph)
        self.columns = _columns_by_end(crossfit.collected.columns)

    @torch.no_grad()
    def options(self, fold: int, stored: Tensor, facts: Tensor, features: Tensor) -> _Options:
        """Return what may be meant instead of facts [n, 3] of a fold.

        Args:
            fold: its system scores what is not stored.
            stored: all facts that are stored [s, 3], these among them.
            facts: distinct facts.
            features: what the views say of them [n, f].
        """
        answers = {end: _other_answers(stored, facts, end) for end in (HEAD, TAIL)}
        parts = []
        for end in (HEAD, TAIL):
            counts = [answers[one][0].clamp(max=MANY).float() for one in (end, TAIL - end)]
            single = [self.single[facts[:, 1], one] for one in (end, TAIL - end)]
            best, level = self._best_new(self.systems[fold], stored, facts, end)
            for is_stored, who in ((1.0, answers[end][1]), (0.0, best)):
                rows = torch.nonzero(who >= 0).squeeze(1)
                flags = [torch.full_like(level, value) for value in (end, is_stored)]
                own = torch.stack([*counts, *single, *flags, level * (1 - is_stored)], 1)
                said = torch.cat([features[:, self.columns[end]], own], 1)[rows]
                which = torch.full_like(rows, end), torch.full_like(rows, int(is_stored))
                parts.append((rows, which[0], who[rows], which[1].bool(), said))
        return _Options(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _best_new(
        self, system: Model, stored: Tensor, facts: Tensor, end: int
    ) -> tuple[Tensor, Tensor]:
        """Return the best answer that is not stored, or -1, and the log of its share: [n], [n]."""
        system.eval()
        side: Side = "head" if end == HEAD else "tail"
        asked, known = (flip(facts), flip(stored)) if end == HEAD else (facts, stored)
        known, start = by_relation(known, self.num_relations)
        best, level = torch.full((len(facts),), -1), torch.zeros(len(facts))
        for relation in torch.unique(asked[:, 1]).tolist():
            rows = torch.nonzero(asked[:, 1] == relation).squeeze(1)
            own = known[start[relation] : start[relation + 1]]
            queries, role = torch.unique(asked[rows, 0]), role_of(own, self.role_entities)
            made, value = best_new(system, own, queries, role, side, 1)
            if not len(made):
                continue
            # As the questions, the answers are in the order of what is known.
            at = torch.searchsorted(made[:, 0].contiguous(), asked[rows, 0].contiguous())
            at = at.clamp(max=len(made) - 1)
            has = made[at, 0] == asked[rows, 0]
            best[rows[has]], level[rows[has]] = made[at[has], 2], value[at[has]]
        return best, level


def _other_answers(stored: Tensor, facts: Tensor, end: int) -> tuple[Tensor, Tensor]:
    """Look up the questions that ask for an end of facts [n, 3], which are stored ones [s, 3].

    Returns:
        How many other answers each has [n], and the only other one, or -1 [n].
    """
    known = TAIL - end
    size = int(stored[:, 1].max()) + 1
    key, asked = (part[:, known] * size + part[:, 1] for part in (stored, facts))
    # Few questions of a large graph are asked.
    mine = torch.isin(key, asked)
    distinct, place = torch.unique(key[mine], return_inverse=True)
    count = torch.bincount(place)
    total = torch.zeros(len(distinct), dtype=torch.int64).index_add_(0, place, stored[mine, end])
    at = torch.searchsorted(distinct, asked)
    others = count[at] - 1
    # With one other answer, the sum of both is that one and the fact's own.
    return others, torch.where(others == 1, total[at] - facts[:, end], -1)


def single_answers(graph: KnowledgeGraph) -> Tensor:
    """Return which share of a relation's questions has one answer: float32 [R, 3], by end."""
    found = torch.zeros(graph.num_relations, 3)
    for end in (HEAD, TAIL):
        asked = graph.facts[:, TAIL - end] * graph.num_relations + graph.facts[:, 1]
        distinct, count = torch.unique(asked, return_counts=True)
        relation = distinct % graph.num_relations
        questions = torch.bincount(relation, minlength=graph.num_relations)
        single = torch.bincount(relation[count == 1], minlength=graph.num_relations)
        found[:, end] = single / questions.clamp(min=1)
    return found


def _columns_by_end(columns: tuple[str, ...]) -> dict[int, Tensor]:
    """Return the order of the columns by end: those of the end stand where the tail's do."""
    place = {name: number for number, name in enumerate(columns)}
    other = {f"{name[:-4]}tail": name for name in columns if name.endswith("_head")}
    other |= {name: tail for tail, name in other.items()}
    turned = [place.get(other.get(name, name), place[name]) for name in columns]
    return {TAIL: torch.arange(len(columns)), HEAD: torch.tensor(turned)}
