"""The path model: it judges an answer by the paths that lead to it, and has no entity vectors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, softplus

from npugraph.encoders import Encoder
from npugraph.graph import SIDES, KnowledgeGraph, Side, TripleIndex, flip
from npugraph.kernels.paths import Edges, aggregate, degrees, is_fused
from npugraph.kernels.paths_cells import reach
from npugraph.model import FoundPath, Named
from npugraph.recipes.path.judged import Judged, mean_of
from npugraph.recipes.path.judging import JudgingModel
from npugraph.recipes.path.known import KnownAnswers, both_ways, question_numbers
from npugraph.recipes.path.layers import PathLayer, degree_scales, even, next_states, perceptron
from npugraph.recipes.path.pruned import Outgoing, Reached, pruned, with_unsent
from npugraph.recipes.path.reached import Reach, reached_share, states_of
from npugraph.recipes.path.strongest import Passed, best_paths, edge_shares
from npugraph.recipes.path.thinned import PARTS, by_group, draws_for, orders
from npugraph.seeds import generator
from npugraph.triples import Triple

# Bytes that the questions of one pass without gradients may take.
CPU_BUDGET = 64 * 2**20
GPU_BUDGET = 4 * 2**30
# Numbers per entity, question and coordinate that a pass without gradients holds at once: the
# state, its four features, their three sums, what is made of them.
PASS_NUMBERS = 14
# How much more is held of what is reached than of as large a share of all states.
MARGIN = 1.75
# The score of an entity that is no candidate; its exponential is 0, and so is its gradient.
NOT_THERE = -1e30


Other = TypeVar("Other", bound="PathModel")


class QueryVectors(Encoder):
    """One vector per relation and direction; entities have none."""

    def __init__(self, num_entities: int, vectors: Tensor) -> None:
        """Start from the vectors [2R, d]."""
        super().__init__()
        self.num_entities = num_entities
        self.relations = nn.Parameter(vectors)

    def forward(self, hidden_facts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return (nothing [E, 0], the query vectors [2R, d]); they hold no evidence to hide."""
        return self.relations.new_empty(self.num_entities, 0), self.relations


class PathModel(JudgingModel):
    """Scores an entity by the messages that reach it from where the question starts.

    The question (h, r, ?) puts the query's vector at h; every layer passes messages
    ``state[source] * relation vector`` along the edges of the training facts, in both directions,
    and a perceptron scores [state, query vector] of every entity (after Zhu et al. 2021). The
    question (?, r, t) is (t, r + R, ?).

    A stored fact that is scored as a fact is no evidence for itself: its own edges are hidden.
    Stored facts have fixed groups, drawn once, and a group is hidden as a whole while one of its
    facts is scored, so that the score of a fact does not depend on what is scored beside it.
    """

    pairs: Tensor
    shuffled: Tensor

    def __init__(
        self,
        facts: Tensor,
        num_entities: int,
        num_relations: int,
        *,
        d: int = 32,
        layers: int = 6,
        group_size: int = 64,
        half: bool = False,
        compiled: bool = False,
        deterministic: bool = True,
        nodes: int = 0,
        reached_only: bool = False,
        draws: int | None = None,
        seed: int = 0,
    ) -> None:
        """Make a model of the paths along facts [n, 3].

        Args:
            facts: what serves as edges; repeated facts count once.
            num_entities: E.
            num_relations: R.
            d: numbers per state.
            layers: the longest path.
            group_size: about how many stored facts are hidden together when they are scored.
            half: keep states in bfloat16 on a GPU.
            compiled: compile the dense part of a layer.
            deterministic: on a GPU, add up gradients in one order.
            nodes: how many nodes send messages per question and layer; 0: all.
            reached_only: keep the states of nodes that no path has reached at 0.
            draws: how often facts are judged on thinned graphs; None: as suits the graph.
            seed: weights and groups follow from it.
        """
        rng = generator(seed, "init")
        vectors = torch.randn(2 * num_relations, d, generator=rng)
        super().__init__(QueryVectors(num_entities, vectors), num_entities, num_relations)
        self.layers = nn.ModuleList(PathLayer(d, 2 * num_relations, rng) for _ in range(layers))
        self.state_part = even((2 * d, d), 2 * d, rng)
        self.query_part = even((2 * d, d), 2 * d, rng)
        self.hidden_bias = even((2 * d,), 2 * d, rng)
        self.answer = even((1, 2 * d), 2 * d, rng)
        self.d = d
        self.half_states = half
        self.deterministic = deterministic
        self.group_size = group_size
        self.nodes = nodes
        self.reached_only = reached_only
        self.draws = draws
        self.stored = TripleIndex(facts, num_entities, num_relations)
        self.known = KnownAnswers(facts, num_entities, num_relations)
        self.edges = Edges.of(self.stored.facts(), num_entities, num_relations)
        self._outgoing: Outgoing | None = None
        self._share_of: tuple[Edges, float | None] | None = None
        self.register_buffer(
            "pairs", torch.unique(self.pair_of(self.stored.facts())), persistent=False
        )
        # Group g of stored facts is shuffled[g::number of groups].
        shuffled = torch.randperm(len(self.stored), generator=generator(seed, "groups"))
        self.register_buffer("shuffled", shuffled, persistent=False)
        self.next_states = torch.compile(next_states) if compiled else next_states

    def on_graph(self, train: KnowledgeGraph) -> PathModel:
        """Return a model with the same weights and the facts of another graph as its edges."""
        # What was learned of facts stays behind with these.
        return self._with_weights(self._like(train))

    def _with_weights(self, made: Other) -> Other:
        """Return a model of the same shape with the weights of this one, where this one is."""
        made.load_state_dict({**made.state_dict(), **dict(self.named_parameters())})
        return made.to(self.device).train(self.training)

    def rows_by_name(self) -> Mapping[str, Named] | None:
        """Tell it of query vectors and edges; a subclass may keep more than these."""
        if type(self) is not PathModel:
            return None
        edges = r"layers\.\d+\.edge_(weight|bias)"
        names = [name for name in self.state_dict() if re.fullmatch(edges, name)]
        return dict.fromkeys(["encoder.relations", *names], "relation")

    def regroup(self, order: Tensor) -> None:
        """Hide neighbours in ``order`` [n], the numbers of all stored facts, together."""
        groups = self._groups()
        sizes = [len(range(group, len(order), groups)) for group in range(groups)]
        for group, members in enumerate(torch.split(order, sizes)):
            self.shuffled[group::groups] = members.to(self.shuffled.device)

    def along(self, train: KnowledgeGraph) -> PathModel:
        """Return this model with other facts about its own entities as its evidence."""
        return self.on_graph(train)

    def _groups(self) -> int:
        """Return how many groups of stored facts there are."""
        return -(-len(self.stored) // self.group_size)

    def _like(self, train: KnowledgeGraph) -> PathModel:
        """Return a model of the same shape on the CPU, with the facts of another graph."""
        return PathModel(train.facts, train.num_entities, self.num_relations, **self._shape())

    def _shape(self) -> dict[str, Any]:
        """Return the arguments that do not depend on the facts."""
        return {
            "d": self.d,
            "layers": len(self.layers),
            "group_size": self.group_size,
            "half": self.half_states,
            "deterministic": self.deterministic,
            "nodes": self.nodes,
            "reached_only": self.reached_only,
            "draws": self.draws,
        }

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        # Behind .to() and the like: the edges go where the weights go.
        super()._apply(*args, **kwargs)
        if self.edges.source.device != self.device:
            self.edges = self.edges.to(self.device)
            self.stored = self.stored.to(self.device)
            self.known = self.known.to(self.device)
        return self

    def state_dtype(self, device: torch.device) -> torch.dtype:
        """Return the type of states: bfloat16 on a GPU where asked for, else as the weights."""
        kept = self.answer.dtype
        return torch.bfloat16 if self.half_states and device.type == "cuda" else kept

    def weights_without(self, hidden: Tensor) -> Tensor:
        """Return the weights [edges] with 0 for both edges of the stored facts ``hidden`` [m]."""
        keep = torch.ones(self.evidence, dtype=torch.bool, device=hidden.device)
        return self.edge_weights(keep.index_fill_(0, hidden, False))

    @property
    def evidence(self) -> int:
        """How many facts have edges."""
        return len(self.stored)

    def edge_weights(self, keep: Tensor) -> Tensor:
        """Return the weights [edges] where some of the facts are there: bool [evidence]."""
        return keep[self.edges.fact].float()

    def forward(self, start: Tensor, query: Tensor, weight: Tensor) -> Tensor:
        """Score every entity as the answer of questions [B], with gradients: [B, E].

        Where ranks share the questions, each asks its own, and all get the scores of all.

        Args:
            start: the entity each question starts from, int64 [B].
            query: its relation, int64 [B]; r + R asks for a head.
            weight: of every edge, [edges]; 0: the edge is not there.
        """

        def own(part: slice) -> Tensor:
            return self._scores(start[part], query[part], weight)

        return self.share.peers.rows(own, len(start))

    def _scores(self, start: Tensor, query: Tensor, weight: Tensor) -> Tensor:
        """Return the scores [B, E] of questions that this process asks."""
        # Precision is this model's own affair: what is kept small is chosen by hand.
        with torch.autocast(start.device.type, enabled=False):
            vectors = embedding(query, self.represent()[1])
            if self.nodes:
                return self._pruned(start, vectors, weight)
            if self.reached_only:
                return self._within_reach(start, vectors, weight)
            return self._answers(self._states(start, vectors, weight), vectors)

    def _within_reach(self, start: Tensor, vectors: Tensor, weight: Tensor) -> Tensor:
        """Return the scores [B, E] where what is not reached has a state of 0, and one score."""
        nothing = self._answers(vectors.new_zeros(1, *vectors.shape), vectors)
        if self._reached_share() is None or weight.requires_grad:
            states = self._states(start, vectors, weight)
            return self._answers(states, vectors).where((states != 0).any(2).t(), nothing)
        cells = reach(start, weight, self.edges, len(self.layers))
        states = states_of(cells, start, vectors, weight, self.edges, self._path_layers())
        found = self._answers(states.unsqueeze(0), vectors, cells.question).squeeze(1)
        every = nothing.expand(-1, self.num_entities)
        return every.index_put((cells.question, cells.node), found)

    def _path_layers(self) -> list[PathLayer]:
        return [layer for layer in self.layers if isinstance(layer, PathLayer)]

    def outgoing(self) -> Outgoing:
        """Return the edges by where they start; sorted once, until there are others."""
        if self._outgoing is None or self._outgoing.edges is not self.edges:
            self._outgoing = Outgoing(self.edges)
        return self._outgoing

    def _pruned(self, start: Tensor, vectors: Tensor, weight: Tensor) -> Tensor:
        """Return the scores [B, E] by the best nodes of each layer; the rest has a state of 0."""
        kind, due = self.state_dtype(start.device), degrees(weight, self.edges)
        scale = degree_scales(due.to(vectors.dtype))
        rows = []
        for begin, vector in zip(torch.split(start, 1), torch.split(vectors, 1), strict=True):

            def step(
                number: int, states: Tensor, place: Tensor, here: Reached, vector: Tensor = vector
            ) -> Tensor:
                layer, sent = self.layers[number], weight[here.chosen]
                assert isinstance(layer, PathLayer)
                relations = layer.edge_vectors(vector).to(kind)
                given = states, relations, place, vector.to(kind), sent, here.edges
                features = aggregate(
                    *given, from_start=number == 0, deterministic=self.deterministic
                )
                features = with_unsent(features, degrees(sent, here.edges), due[here.nodes])
                return next_states(features, states, scale[here.nodes], *layer.dense(kind))

            score = partial(self._answers, vectors=vector)
            sizes = self.nodes, len(self.layers)
            found, states = pruned(
                self.outgoing(), begin, vector.to(kind), weight, sizes, step, score
            )
            unreached = score(states.new_zeros(1, 1, self.d)).expand(1, self.num_entities)
            rows.append(unreached.index_copy(1, found, score(states)))
        return torch.cat(rows)

    def _states(
        self, start: Tensor, vectors: Tensor, weight: Tensor, passed: list[Passed] | None = None
    ) -> Tensor:
        """Return the states [E, B, d] after the last layer; ``passed`` gets what each layer did."""
        kind, count = self.state_dtype(start.device), len(start)
        scale = degree_scales(degrees(weight, self.edges).to(vectors.dtype))
        first = vectors.to(kind)
        place = (start, torch.arange(count, device=start.device))
        states = first.new_zeros(self.num_entities, count, self.d).index_put(place, first)
        within = Reach(start, weight, self.edges) if self.reached_only else None
        for number, layer in enumerate(self._path_layers()):
            relations = layer.edge_vectors(vectors).to(kind)
            features = aggregate(
                states,
                relations,
                start,
                first,
                weight,
                self.edges,
                from_start=number == 0,
                deterministic=self.deterministic,
            )
            if passed is not None:
                passed.append(Passed(states, relations, features))
            states = self.next_states(features, states, scale, *layer.dense(kind))
            if within is not None:
                states = states * within.step().unsqueeze(2)
        return states

    def _answers(self, states: Tensor, vectors: Tensor, question: Tensor | None = None) -> Tensor:
        """Return the perceptron's scores [B, E], or those [C, 1] of states of these questions."""
        weights = (self.state_part, self.query_part, self.hidden_bias, self.answer)
        return perceptron(states, vectors, *weights, question)

    def pair_of(self, facts: Tensor) -> Tensor:
        """Return a number for the two ends of each fact [n, 3], whichever comes first: [n]."""
        low, high = facts[:, [0, 2]].aminmax(dim=1)
        return low * self.num_entities + high

    def kinds_of(self, facts: Tensor) -> dict[str, Tensor]:
        """Tell facts [n, 3] whose ends are linked by a stored fact from those whose are not."""
        linked = torch.isin(self.pair_of(facts), self.pairs)
        return {"linked": linked, "unlinked": ~linked}

    @torch.no_grad()
    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing ``side`` of queries [q], nothing hidden: [q, E]."""
        return self._score_all(self.weights_without(known[:0]), known, relation, side)

    def score_all_without(self, fact: Tensor) -> Callable[[Tensor, Tensor, Side], Tensor]:
        """Return ``score_all`` with the own edges of a fact [3] hidden, where it is stored."""
        return partial(self._score_all, self._without(fact))

    def _without(self, fact: Tensor) -> Tensor:
        """Return the weights [edges] with 0 for the own edges of one fact [3]."""
        place = self.stored.places(fact.unsqueeze(0))
        return self.weights_without(place[place >= 0])

    @torch.no_grad()
    def _score_all(self, weight: Tensor, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        query = relation if side == "tail" else relation + self.num_relations
        step = self.questions_per_pass()
        parts = zip(torch.split(known, step), torch.split(query, step), strict=True)
        return torch.cat([self(start, asked, weight) for start, asked in parts])

    def strongest_paths(self, fact: Tensor, k: int) -> tuple[FoundPath, ...]:
        """Return the k heaviest paths from the head of a fact [3] to its tail.

        The question is (head, relation, ?), the fact's own edges are hidden, and the weight of a
        path is what :mod:`.strongest` says.
        """
        fact = fact.to(self.device)
        weight, passed = self._without(fact), list[Passed]()
        start, query = fact[:1], fact[1:2]
        with torch.enable_grad(), torch.autocast(fact.device.type, enabled=False):
            vectors = embedding(query, self.represent()[1])
            scores = self._answers(self._states(start, vectors, weight, passed), vectors)
            features = [layer.features for layer in passed]
            slopes = torch.autograd.grad(scores[0, fact[2]], features)
        shares = edge_shares(passed, slopes, self.edges, weight, fact[[0, 2]])
        # Of what a subclass adds to the stored facts nobody can look anything up.
        shares[:, self.edges.fact >= len(self.stored)] = -torch.inf
        found = best_paths(self.edges, shares, int(fact[0]), int(fact[2]), k)
        return tuple(FoundPath(*self._along(path), weight) for weight, path in found)

    def _along(self, path: Sequence[int]) -> tuple[tuple[Triple, ...], tuple[bool, ...]]:
        """Return the facts that edges come from, and which of them are passed forward."""
        edges, chosen = self.edges, list(path)
        columns = edges.source[chosen], edges.relation[chosen] % self.num_relations
        rows = torch.stack([*columns, edges.target[chosen]], 1)
        forward = edges.relation[chosen] < self.num_relations
        facts = rows.where(forward[:, None], flip(rows)).tolist()
        return tuple((h, r, t) for h, r, t in facts), tuple(forward.tolist())

    def questions_per_pass(self) -> int:
        """Return how many questions fit the memory of one pass without gradients."""
        budget = GPU_BUDGET if self.device.type == "cuda" else CPU_BUDGET
        size = self.state_dtype(self.device).itemsize
        nodes, _ = self._reach(self.device)
        each = (PASS_NUMBERS * nodes + 4 * self._held(self.device)) * self.d * size
        each += self.score_bytes()
        return max(1, min(256, budget // each))

    def _held(self, device: torch.device) -> int:
        """Return how many messages of a question are held at once: none by a fused kernel."""
        if self._on_cells(device) or is_fused(self.edges, self.d, device, self.state_dtype(device)):
            return 0
        return sum(self._reach(device))

    def _on_cells(self, device: torch.device) -> bool:
        """Tell whether only what is reached is worked on."""
        return self.reached_only and device.type == "cpu" and self._reached_share() is not None

    def _reach(self, device: torch.device) -> tuple[int, int]:
        """Return how many nodes and edges a layer of a question works on, at most or about."""
        if self.nodes:
            return self.outgoing().most(self.nodes)
        share = MARGIN * (self._reached_share() or 1.0) if self._on_cells(device) else 1.0
        return math.ceil(share * self.num_entities), math.ceil(share * len(self.edges))

    def _reached_share(self) -> float | None:
        """Return the share of all states within reach, or None; found once per set of edges."""
        if self._share_of is None or self._share_of[0] is not self.edges:
            share = reached_share(self.edges, len(self.layers), self.d, self.answer.dtype)
            self._share_of = self.edges, share
        return self._share_of[1]

    def step_bytes(self, questions: int, device: torch.device) -> int:
        """Return about how many bytes a step with gradients takes beside the weights.

        Every layer keeps its state, four features, which message won, and what the norm and the
        short cut need; beside that there are the gradients of one layer and the answers.
        """
        size, (nodes, _) = self.state_dtype(device).itemsize, self._reach(device)
        layer = nodes * (5 * size + 10) + 4 * size * self._held(device)
        # Who is reached: passed along every edge, in one layer at a time.
        masked = 4 * sum(self._reach(device)) if self.reached_only else 0
        layer += 2 * (self.answer.itemsize + size) * 2 * self.num_relations
        once = nodes * 24 * (size + self.answer.itemsize) // 2
        states = self.d * (len(self.layers) * layer + once)
        return questions * (states + masked + self.score_bytes())

    def score_bytes(self) -> int:
        """Return about how many bytes the scores of a question take, with what is made of them."""
        return 8 * self.answer.itemsize * self.num_entities

    @torch.no_grad()
    def judge(
        self, facts: Tensor, sides: Sequence[Side] = SIDES, beside: Tensor | None = None
    ) -> Judged:
        """Score facts [n, 3], own edges hidden where stored, as answers for each of ``sides``."""
        return self._judge_in(self._groups(), self.shuffled, facts, sides, beside)

    @torch.no_grad()
    def judge_thoroughly(self, facts: Tensor, beside: Tensor | None = None) -> Judged:
        """Judge both sides, and as the mean over thinned graphs, as those of training are."""
        whole, count = self.judge(facts, beside=beside), len(self.stored)
        thinned = [
            self._judge_in(PARTS, order.to(facts.device), facts, SIDES, beside)
            for order in orders(count, draws_for(self.draws, count, self.num_entities))
        ]
        return replace(whole, thinned=mean_of(thinned)) if thinned else whole

    def _judge_in(
        self,
        groups: int,
        order: Tensor,
        facts: Tensor,
        sides: Sequence[Side],
        beside: Tensor | None,
    ) -> Judged:
        """Judge facts while their group is hidden; group g of the stored is order[g::groups]."""
        # One of the two blocks for each side: the facts, and the facts reversed.
        blocks = both_ways(facts, self.num_relations).view(2, len(facts), 3)
        asked = torch.stack([blocks[SIDES.index(side)] for side in sides])
        out = self.answer.new_empty(3, len(sides), len(facts))
        place = self.stored.places(facts) if beside is None else beside
        for hidden, rows in by_group(place, order, groups):
            weight, mine = self.weights_without(hidden), asked[:, rows].flatten(0, 1)
            # Facts with the same question come together.
            sorting = question_numbers(mine, self.num_relations).argsort(stable=True)
            parts = torch.split(mine[sorting], self.questions_per_pass())
            found = torch.cat([self._judge(part, weight) for part in parts], 1)
            out[:, :, rows] = found[:, sorting.argsort()].view(3, len(sides), len(rows))
        return Judged(*out)

    def _judge(self, asked: Tensor, weight: Tensor) -> Tensor:
        """Return score and both logarithms of answers [m, 3] to questions for a tail: [3, m].

        Rows with the same question that stand together are asked once.
        """
        start, query, answer = asked.unbind(1)
        question = question_numbers(asked, self.num_relations)
        once, row = torch.unique_consecutive(question, return_inverse=True)
        size = 2 * self.num_relations
        scores = self(once // size, once % size, weight)[row]
        own = scores.gather(1, answer.unsqueeze(1)).squeeze(1)
        among_all = own - scores.logsumexp(1)
        not_new = self.known.mask(start, query).scatter_(1, answer.unsqueeze(1), True)
        others = scores.masked_fill(not_new, NOT_THERE).logsumexp(1)
        return torch.stack([own, among_all, -softplus(others - own)])
