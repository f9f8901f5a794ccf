"""npugraph-plus: paths and entity vectors, trained side by side and read together.

A model of paths knows what the rest of the graph says of an answer; ComplEx-N3 knows each entity
by heart. Each errs where the other need not. The score of an answer is

    w log softmax(path) + (1 - w) log softmax(ComplEx-N3)

over all entities, and w is chosen by the validation facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from npugraph.graph import SIDES, KnowledgeGraph, Side
from npugraph.model import FoundPath, Model, System
from npugraph.objectives import SoftmaxN3
from npugraph.ranking.ranks import Ranks
from npugraph.recipes.base import LogRange, Recipe
from npugraph.recipes.common import N3_INIT_SCALE, reciprocal_complex
from npugraph.recipes.path.batch_loss import PathTraining, of_epoch
from npugraph.recipes.path.judging import JudgingModel
from npugraph.recipes.path.members import MembersTraining, lent
from npugraph.recipes.path.npu import NPUPathSettings
from npugraph.recipes.path.npu import build as build_weighted
from npugraph.recipes.path.recipe import PATH
from npugraph.recipes.path.recipe import build as build_path
from npugraph.samplers import AllEntities
from npugraph.seeds import generator
from npugraph.settings import setting
from npugraph.training.batch_loss import VALIDATION, PlainTraining, RankValidation, Training

# The weights of path that are compared.
WEIGHTS = tuple(step / 20 for step in range(21))
# Bytes of logarithms that are kept while the weights are compared.
CPU_KEPT = 256 * 2**20
GPU_KEPT = 4 * 2**30
# Numbers of scores that judging facts may hold at once.
AT_ONCE = 2**24

WeightBy = Literal["all", "linked", "unlinked"]


@dataclass(frozen=True)
class PlusSettings(NPUPathSettings):
    """Settings of npugraph-plus: those of path or npugraph-path, and of ComplEx-N3 beside it."""

    paths: Literal["path", "npugraph-path"] = setting(
        "path", "the part of paths; settings that npugraph-path alone has count for that one"
    )
    weight_by: WeightBy = setting(
        "all",
        "validation facts that the weight and the best epoch are chosen by: all, or by whether a "
        "fact links them",
    )
    complex_d: int = setting(256, "complex numbers per entity and relation", low=1)
    complex_n3: float = setting(0.01, "weight of the N3 penalty", low=0)
    complex_epochs: int = setting(100, "passes of ComplEx-N3 over the facts, in all", low=1)
    complex_learning_rate: float = setting(0.1, "step size of ComplEx-N3, by Adagrad", low=0)


class PlusModel(Model):
    """The weighted mean of two models' logarithms after a softmax over all entities.

    A stored fact is judged with its own edges hidden by the model of paths; the vectors have
    learned it all the same, so what is said of stored facts as such is the paths' alone.
    """

    weight: Tensor
    hides_stored = True
    reciprocal = True

    def __init__(self, path: JudgingModel, vectors: System) -> None:
        """Put the two together with equal weights."""
        super().__init__(None, path.num_entities, path.num_relations)
        self.path = path
        self.vectors = vectors
        self.register_buffer("weight", torch.tensor(0.5))

    def along(self, train: KnowledgeGraph) -> PlusModel:
        """Return this model with other facts as the evidence of its paths."""
        paths = self.path.along(train)
        assert isinstance(paths, JudgingModel)
        made = PlusModel(paths, self.vectors)
        made.weight.copy_(self.weight)
        return made.to(self.device).train(self.training)

    def kinds_of(self, facts: Tensor) -> dict[str, Tensor]:
        """Tell facts whose ends are linked by a stored fact from those whose are not."""
        return self.path.kinds_of(facts)

    @torch.no_grad()
    def logarithms(self, known: Tensor, relation: Tensor, side: Side) -> tuple[Tensor, Tensor]:
        """Return what both parts say of every entity as the missing ``side``: [q, E] each."""
        paths = self.path.log_all(known, relation, side)
        return paths, self._by_vectors(known, relation, side)

    def _by_vectors(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        # Precision is a matter of the paths; the product over all entities is cheap.
        with torch.autocast(known.device.type, enabled=False):
            return self.vectors.score_all(known, relation, side).log_softmax(1)

    @torch.no_grad()
    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing ``side`` of queries [q], nothing hidden: [q, E]."""
        paths, vectors = self.logarithms(known, relation, side)
        return torch.lerp(vectors, paths, self.weight)

    @torch.no_grad()
    def score_as(self, facts: Tensor, side: Side) -> Tensor:
        """Score facts [n, 3] as answers for their ``side``; own edges hidden where stored: [n]."""
        paths = self.path.judge(facts, (side,)).among_all[0]
        known, answer = (0, 2) if side == "tail" else (2, 0)
        step = max(1, AT_ONCE // self.num_entities)
        parts = [
            self._by_vectors(part[:, known], part[:, 1], side).gather(1, part[:, answer, None])
            for part in torch.split(facts, step)
        ]
        return torch.lerp(torch.cat(parts).squeeze(1), paths, self.weight)

    @torch.no_grad()
    def score(self, facts: Tensor) -> Tensor:
        """Score facts [n, 3]: [n], the mean of both directions."""
        return torch.stack([self.score_as(facts, side) for side in SIDES]).mean(0)

    def strongest_paths(self, fact: Tensor, k: int) -> tuple[FoundPath, ...]:
        """Return the k paths that speak most for a fact [3], by the part of paths."""
        return self.path.strongest_paths(fact, k)

    def probability(self, facts: Tensor, collected: Tensor) -> Tensor:
        """Return what the paths say: the vectors have learned the collected facts by heart."""
        return self.path.probability(facts, collected)


class Remembered:
    """What both parts say of the validation questions, computed once for all weights.

    Every ranking asks for the same chunks in the same order. What does not fit the memory is
    computed again each time.
    """

    def __init__(self, system: PlusModel) -> None:
        """Remember nothing yet."""
        self.system = system
        self.left = GPU_KEPT if system.device.type == "cuda" else CPU_KEPT
        self.kept: list[tuple[Tensor, Tensor]] = []
        self.number = 0
        self.weight = 0.0

    def by(self, weight: float) -> Remembered:
        """Return these scores with another weight, to be asked from the first chunk on."""
        self.number, self.weight = 0, weight
        return self

    def __call__(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing ``side`` of queries [q]: [q, E]."""
        if self.number < len(self.kept):
            paths, vectors = self.kept[self.number]
        else:
            paths, vectors = self.system.logarithms(known, relation, side)
            self.left -= paths.nbytes + vectors.nbytes
            if self.left >= 0:
                self.kept.append((paths, vectors))
        self.number += 1
        return torch.lerp(vectors, paths, self.weight)


class PlusTraining(Training):
    """Trains both parts in every step: each question of the paths comes with facts to learn.

    The part of paths is trained as it would be alone. Where it weighs facts as answers, those of a
    batch of the vectors have the same weights.
    """

    system: PlusModel
    learned: Tensor
    place: Tensor

    def __init__(
        self,
        path: PathTraining | MembersTraining,
        vectors: PlainTraining,
        *,
        beside: int,
        learning_rate: float,
        weight_by: WeightBy = "all",
        seed: int = 0,
    ) -> None:
        """Train the systems of two trainings.

        Args:
            path: trains the part of paths.
            vectors: trains the part of entity vectors.
            beside: facts that the vectors learn beside each question.
            learning_rate: their step size.
            weight_by: which validation facts choose the weight and the best epoch.
            seed: the order of the facts follows from it.
        """
        super().__init__(PlusModel(lent(path), lent(vectors)), vectors.facts)
        self.path = path
        self.vectors = vectors
        self.memory_settings = (*path.memory_settings, "complex_d")
        self.learning_rate = learning_rate
        self.weight_by: WeightBy = weight_by
        self.seed = seed
        shape = path.num_items(), beside
        self.register_buffer("learned", torch.empty(shape, dtype=torch.int64), persistent=False)
        # Where the paths have the facts of the vectors: theirs are distinct and sorted.
        place = self.system.path.stored.places(vectors.facts)
        self.register_buffer("place", place, persistent=False)
        self._learn(1)

    def _learn(self, epoch: int) -> None:
        """Take the facts of an epoch: the next ones of a seeded order, drawn for each pass."""

        def a_pass(number: int) -> Tensor:
            rng = generator(self.seed, "vectors", number)
            return torch.randperm(len(self.facts), generator=rng)

        taken = of_epoch(epoch, self.learned.numel(), len(self.facts), a_pass)
        self.learned.copy_(taken.view_as(self.learned))

    def num_items(self) -> int:
        """Return how many questions one epoch asks."""
        return self.path.num_items()

    def step_bytes(self, batch_size: int, device: torch.device) -> int:
        """Return what a step of either part holds; both are there when gradients are taken."""
        facts = batch_size * self.learned.shape[1]
        return self.path.step_bytes(batch_size, device) + self.vectors.step_bytes(facts, device)

    def validation_bytes(self, facts: int, device: torch.device) -> int:
        """Add what is remembered while the weights are compared."""
        kept = GPU_KEPT if device.type == "cuda" else CPU_KEPT
        logarithms = 2 * 2 * 4 * self.system.num_entities * facts
        return super().validation_bytes(facts, device) + min(kept, logarithms)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the parts apart: the vectors have an optimiser and a step size of their own."""
        paths = [*self.path.parameters(), *self.system.path.parameters()]
        vectors = [*self.vectors.parameters(), *self.system.vectors.parameters()]
        own = {"optimizer": "adagrad", "lr": self.learning_rate}
        return [{"params": paths}, {"params": vectors, **own}]

    def step_share(self, done: float) -> float:
        """Return what the part of paths says; the step size of the vectors falls with it."""
        return self.path.step_share(done)

    def begin_epoch(self, epoch: int, rng: torch.Generator) -> bool:
        """Take the next questions and the next facts; both follow from the epoch's number."""
        self._learn(epoch)
        moved = self.path.begin_epoch(epoch, rng)
        weights = self.path.answer_weights()
        # A batch of none but wrong facts has a mean, too.
        self.vectors.weight = None if weights is None else weights[self.place].clamp(min=1e-6)
        return moved

    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return the sum of both losses."""
        paths = self.path.loss(rows, rng)
        with torch.autocast(rows.device.type, enabled=False):
            return paths + self.vectors.loss(self.learned[rows].flatten(), rng)

    def health(self) -> dict[str, float | bool]:
        """Return what the part of paths says of itself."""
        return self.path.health()

    def validate(self, rank: RankValidation) -> tuple[Ranks, dict[str, float]]:
        """Choose the weight by the validation facts, and return the ranks by it.

        The weights that other facts would choose, and the MRR of either part alone, are logged.
        """
        scores = Remembered(self.system)
        ranked = {weight: rank(scores.by(weight)) for weight in WEIGHTS}
        facts = torch.from_numpy(next(iter(ranked.values())).facts).to(self.system.device)
        masks = {name: mask.cpu().numpy() for name, mask in self.system.kinds_of(facts).items()}
        # Where there is no such fact, all must do; where there is none at all, nothing is chosen.
        found = {
            name: max(WEIGHTS, key=lambda w: ranked[w].metrics(VALIDATION, where=mask)["mrr"])
            for name, mask in {"all": None, **masks}.items()
            if len(facts) and (mask is None or mask.any())
        }
        by = self.weight_by if self.weight_by in found else "all"
        if found:
            self.system.weight.fill_(found[by])
        weight = min(WEIGHTS, key=lambda w: abs(w - float(self.system.weight)))
        chosen = ranked[weight].metrics(VALIDATION, where=masks.get(by))
        return ranked[weight], {
            # By these the best epoch is chosen, too.
            "mrr": chosen["mrr"],
            "hits@10": chosen["hits@10"],
            "mrr_all": ranked[weight].metrics(VALIDATION)["mrr"],
            "weight": weight,
            **{f"weight_by_{name}": value for name, value in found.items()},
            "mrr_paths_alone": ranked[1.0].metrics(VALIDATION)["mrr"],
            "mrr_vectors_alone": ranked[0.0].metrics(VALIDATION)["mrr"],
        }


def build(settings: PlusSettings, train: KnowledgeGraph) -> PlusTraining:
    """Put a training of paths and one of ComplEx-N3 together."""
    path = (build_path if settings.paths == "path" else build_weighted)(settings, train)
    system = reciprocal_complex(train, settings.complex_d, N3_INIT_SCALE, settings.seed)
    vectors = PlainTraining(system, AllEntities(), SoftmaxN3(settings.complex_n3), train)
    wanted = settings.complex_epochs * len(train.facts) / (settings.epochs * path.num_items())
    return PlusTraining(
        path,
        vectors,
        beside=max(1, round(wanted)),
        learning_rate=settings.complex_learning_rate,
        weight_by=settings.weight_by,
        seed=settings.seed,
    )


NPUGRAPH_PLUS = Recipe(
    name="npugraph-plus",
    summary="Paths and ComplEx-N3 in one training; their mean, weighted by validation.",
    source="this project; its parts: Zhu et al. 2021 (path), Lacroix et al. 2018 (complex-n3)",
    settings=PlusSettings,
    build=build,
    parts={
        **PATH.parts,
        "encoder": "messages along paths; beside them one vector per entity and relation",
        "scorer": "perceptron, and ComplEx: mean of the logarithms after a softmax",
        "objective": "softmax over the entities for both, N3 penalty for the vectors",
    },
    space={**PATH.space, "complex_n3": LogRange(1e-3, 0.3)},
)
