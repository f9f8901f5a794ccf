"""What benchmarks/training.py compares npugraph with: one training step of each other library.

Each function takes a task and the data and returns a function that takes the next step. All have
the same facts, the same number of negatives for each, and Adam; all but ``kge`` in its fused form.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid, margin_ranking_loss
from torch.utils.data import DataLoader, Dataset

from npugraph.graph import Splits
from npugraph.recipes.common import subsampling_weight
from npugraph.seeds import generator, number

Step = Callable[[], object]
# What PyKEEN and PyG call the models.
NAMES = {"transe": "TransE", "distmult": "DistMult", "complex": "ComplEx", "rotate": "RotatE"}


@dataclass(frozen=True)
class Task:
    """One measurement, as it is handed to a worker."""

    library: str
    model: str
    allocator: bool
    share: int
    batch: int
    negatives: int
    dimension: int
    warm_up: int
    seconds: float
    threads: int
    seed: int


def batches(task: Task, splits: Splits) -> Iterator[Tensor]:
    """Yield the numbers [b] of the facts of full batches, epoch after epoch."""
    rng = generator(task.seed, "benchmark", "order")
    while True:
        order = torch.randperm(len(splits.train), generator=rng)
        yield from (rows for rows in torch.split(order, task.batch) if len(rows) == task.batch)


def with_adam(model: nn.Module, loss: Callable[[], Tensor], *, fused: bool | None = True) -> Step:
    """Return a step of Adam on the loss of the next batch; ``fused`` None is torch's default."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
    model.train()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def pykeen(task: Task, splits: Splits) -> Step:
    """Return a step of PyKEEN's training under the stochastic local closed world assumption."""
    factory = import_module("pykeen.triples").CoreTriplesFactory(
        splits.train.facts, splits.num_entities, splits.num_relations
    )
    model = getattr(import_module("pykeen.models"), NAMES[task.model])(
        triples_factory=factory, embedding_dim=task.dimension, regularizer=None
    )
    sampler = import_module("pykeen.sampling").BasicNegativeSampler(
        mapped_triples=factory.mapped_triples, num_negs_per_pos=task.negatives, filtered=False
    )
    rows = batches(task, splits)

    def loss() -> Tensor:
        facts = splits.train.facts[next(rows)]
        corrupted, _ = sampler.sample(facts)
        negative = model.score_hrt(corrupted.reshape(-1, 3)).view(corrupted.shape[:-1])
        value: Tensor = model.loss.process_slcwa_scores(model.score_hrt(facts), negative)
        return value

    return with_adam(model, loss)


def pyg(task: Task, splits: Splits) -> Step:
    """Return a step of a model of torch_geometric.nn.kge."""
    model = getattr(import_module("torch_geometric.nn.kge"), NAMES[task.model])(
        splits.num_entities, splits.num_relations, task.dimension
    )
    head, relation, tail = splits.train.facts.unbind(1)
    options = {"batch_size": task.batch, "shuffle": True, "drop_last": True}
    loader = model.loader(head, relation, tail, **options)
    facts = itertools.chain.from_iterable(itertools.repeat(loader))

    def loss() -> Tensor:
        batch = next(facts)
        many = [part.repeat(task.negatives) for part in batch]
        positive, negative = model(*batch), model(*model.random_sample(*many))
        if task.model in ("transe", "distmult"):
            positive = positive.repeat(task.negatives)
            target = torch.ones_like(positive)
            return margin_ranking_loss(positive, negative, target, margin=model.margin)
        target = torch.cat([torch.ones_like(positive), torch.zeros_like(negative)])
        return binary_cross_entropy_with_logits(torch.cat([positive, negative]), target)

    return with_adam(model, loss)


def torchkge(task: Task, splits: Splits) -> Step:
    """Return a step of TorchKGE."""
    models, losses = import_module("torchkge.models"), import_module("torchkge.utils.losses")
    sizes = splits.num_entities, splits.num_relations
    if task.model == "transe":
        model = models.TransEModel(task.dimension, *sizes, dissimilarity_type="L1")
    else:
        kinds = {"distmult": models.DistMultModel, "complex": models.ComplExModel}
        model = kinds[task.model](task.dimension, *sizes)
    criterion = losses.LogisticLoss() if task.model == "complex" else losses.MarginLoss(0.5)
    head, relation, tail = splits.train.facts.unbind(1)
    # The dictionaries are for evaluation; empty ones spare the time to fill them.
    unused: dict[str, Any] = {
        f"dict_of_{name}": defaultdict(set) for name in ("heads", "tails", "rels")
    }
    graph = import_module("torchkge.data_structures").KnowledgeGraph(
        kg={"heads": head, "tails": tail, "relations": relation},
        ent2ix={str(i): i for i in range(sizes[0])},
        rel2ix={str(i): i for i in range(sizes[1])},
        **unused,
    )
    sampler = import_module("torchkge.sampling").UniformNegativeSampler(graph, n_neg=task.negatives)
    rows = batches(task, splits)

    def loss() -> Tensor:
        chosen = next(rows)
        h, r, t = graph.head_idx[chosen], graph.relations[chosen], graph.tail_idx[chosen]
        value: Tensor = criterion(*model(h, t, r, *sampler.corrupt_batch(h, t, r)))
        return value

    return with_adam(model, loss)


class Loop(nn.Module):
    """Score functions over candidates of each fact, gathered as [b, k, w]."""

    GAMMA = 9.0

    def __init__(self, task: Task, splits: Splits) -> None:
        """Draw both tables evenly from +-(gamma + 2) / d."""
        super().__init__()
        self.model = task.model
        self.limit = (self.GAMMA + 2) / task.dimension
        double = 2 if task.model in ("complex", "rotate") else 1
        shapes = (
            (splits.num_entities, double * task.dimension),
            (splits.num_relations, (1 if task.model == "rotate" else double) * task.dimension),
        )
        rng = generator(task.seed, "benchmark", "weights")
        entities, relations = (
            (torch.rand(shape, generator=rng) * 2 - 1) * self.limit for shape in shapes
        )
        self.entities, self.relations = nn.Parameter(entities), nn.Parameter(relations)

    def gather(self, table: Tensor, ids: Tensor) -> Tensor:
        """Return rows of a table: int64 [b, k] to [b, k, w]."""
        return table.index_select(0, ids.flatten()).view(*ids.shape, -1)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts, of whose ids [b, 1] one end may be candidates [b, k]: [b, k]."""
        h, t = self.gather(self.entities, head), self.gather(self.entities, tail)
        r = self.gather(self.relations, relation)
        # The known end meets the relation first: that is [b, 1, w], not [b, k, w].
        first = head.shape[1] == 1
        if self.model == "distmult":
            return ((h * r) * t if first else h * (r * t)).sum(2)
        if self.model == "transe":
            gap = (h + r) - t if first else h + (r - t)
            distance: Tensor = gap.norm(p=1, dim=2)
            return self.GAMMA - distance
        return self.complex_score(h, r, t, first)

    def complex_score(self, h: Tensor, r: Tensor, t: Tensor, first: bool) -> Tensor:
        """Score complex vectors, stored as two halves."""
        known, other = (h, t) if first else (t, h)
        a, b = known.chunk(2, 2)
        x, y = other.chunk(2, 2)
        if self.model == "complex":
            c, d = r.chunk(2, 2)
        else:
            phase = r * (math.pi / self.limit)
            c, d = phase.cos(), phase.sin()
        if not first:  # a head is found by the conjugate of the relation
            d = -d
        real, imaginary = a * c - b * d, a * d + b * c
        if self.model == "complex":
            return (real * x + imaginary * y).sum(2)
        moduli: Tensor = torch.stack([real - x, imaginary - y]).norm(dim=0)
        return self.GAMMA - moduli.sum(2)

    def loss(self, facts: Tensor, drawn: Tensor, at_head: bool, weight: Tensor) -> Tensor:
        """Return the self-adversarial loss of facts [b, 3] against entities [b, k] at one end."""
        head, relation, tail = facts.unsqueeze(2).unbind(1)
        against = self(drawn, relation, tail) if at_head else self(head, relation, drawn)
        share = against.detach().softmax(1)
        negative = (share * logsigmoid(-against)).sum(1)
        positive = logsigmoid(self(head, relation, tail)).squeeze(1)
        value: Tensor = -(weight * (positive + negative)).sum() / weight.sum() / 2
        return value


def loop(task: Task, splits: Splits) -> Step:
    """Return a step of a dense loop whose sampling costs nothing: a bound, nobody's program."""
    model = Loop(task, splits)
    facts, weights = (
        splits.train.facts,
        subsampling_weight(splits.train.facts, splits.num_relations),
    )
    rows, heads = batches(task, splits), itertools.cycle([True, False])
    rng = generator(task.seed, "benchmark", "sampler")
    shape = task.batch, task.negatives

    def loss() -> Tensor:
        chosen = next(rows)
        drawn = torch.randint(splits.num_entities, shape, generator=rng)
        return model.loss(facts[chosen], drawn, next(heads), weights[chosen])

    return with_adam(model, loss)


class Negatives(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Facts with entities drawn for each: those that make a training fact are drawn again."""

    def __init__(self, task: Task, splits: Splits, at_head: bool) -> None:
        """Group the training facts by what is known when one end is missing."""
        facts = splits.train.facts
        self.facts = facts.tolist()
        self.weights = subsampling_weight(facts, splits.num_relations)
        self.sizes = splits.num_entities, task.negatives
        self.known, missing = (2, 0) if at_head else (0, 2)
        self.rng = np.random.default_rng(number(task.seed, "benchmark", "kge", at_head))
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for fact in self.facts:
            groups[fact[self.known], fact[1]].append(fact[missing])
        self.answers = {query: np.array(group) for query, group in groups.items()}

    def __len__(self) -> int:
        """Return the number of facts."""
        return len(self.facts)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return a fact [3], entities [k] that make no training fact of it, and its weight."""
        fact = self.facts[row]
        answers = self.answers[fact[self.known], fact[1]]
        entities, count = self.sizes
        kept: list[NDArray[np.int64]] = []
        while sum(map(len, kept)) < count:
            drawn = self.rng.integers(entities, size=2 * count)
            # Repeated draws may be dropped, too: it spares the search for what is unique.
            kept.append(drawn[np.isin(drawn, answers, assume_unique=True, invert=True)])
        return torch.tensor(fact), torch.from_numpy(np.concatenate(kept)[:count]), self.weights[row]


def kge(task: Task, splits: Splits) -> Step:
    """Return a step as RotatE's public code takes it: worker processes draw, Adam is not fused.

    Half as many processes as cores, at least one, draw for heads, and as many for tails.
    """
    model = Loop(task, splits)

    def load(at_head: bool) -> Iterator[Any]:
        loader = DataLoader(
            Negatives(task, splits, at_head),
            batch_size=task.batch,
            shuffle=True,
            drop_last=True,
            num_workers=max(1, task.threads // 2),
            persistent_workers=True,
            generator=generator(task.seed, "benchmark", "order", at_head),
        )
        return itertools.chain.from_iterable(itertools.repeat(loader))

    sources = itertools.cycle([(True, load(True)), (False, load(False))])

    def loss() -> Tensor:
        at_head, source = next(sources)
        facts, drawn, weight = next(source)
        return model.loss(facts, drawn, at_head, weight)

    return with_adam(model, loss, fused=None)


# Not a program that anybody runs, but how fast one could be if drawing cost nothing.
BOUND = "loop"
# Each with the package that it needs.
PEERS: dict[str, tuple[str, Callable[[Task, Splits], Step]]] = {
    "pykeen": ("pykeen", pykeen),
    "pyg": ("torch_geometric", pyg),
    "torchkge": ("torchkge", torchkge),
    "kge": ("torch", kge),
    "loop": ("torch", loop),
}
