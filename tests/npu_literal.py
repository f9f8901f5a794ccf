"""nPUGraph, transcribed from the paper fact by fact: slow, and with nothing of ours in it.

Numbers are Decimals, so that phi, 1 - phi and their logarithms can be written as they are printed,
whatever the scores. Equations: Wang et al. 2023, "Noisy PU Learning on KG" and "Label
Posterior-aware Encoder"; where the paper contradicts itself, the readings of METHOD.md, section 3.
"""

from __future__ import annotations

import decimal
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from itertools import product

import torch
from torch import Tensor

from npugraph.encoders import NeighbourAttention
from npugraph.recipes.npugraph.objective import Heads

Numbers = list[Decimal]


@dataclass(frozen=True)
class Switches:
    """One position of every switch."""

    reading: str = "exception"
    unlabeled_form: str = "literal"
    estimate: str = "em"
    beta: float = 0.9
    alpha: float = 0.05
    kl_weight: float = 1.0
    reg_weight: float = 1.0


SWITCHES = [
    Switches(reading, form, estimate, kl_weight=kl, reg_weight=reg)
    for reading, form, estimate, (kl, reg) in product(
        ("exception", "printed"),
        ("literal", "phi"),
        ("em", "closed"),
        ((1.0, 1.0), (0.4, 2.5), (3.0, 0.0)),
    )
]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def name_of(value: object) -> str:
    """Name a parameter of a test."""
    if not isinstance(value, Switches):
        return str(value)
    return "-".join(str(getattr(value, field.name)) for field in fields(value))


def exact(tensor: Tensor) -> Numbers:
    return [Decimal(value) for value in tensor.detach().tolist()]


def phi(psi: Decimal) -> Decimal:
    """Probability of being collected."""
    return 1 / (1 + (-psi).exp())


def collected_posterior(psi1: Decimal, psi0: Decimal, s: Switches) -> Decimal:
    """Return w~l; METHOD 4: the exception reading takes 1 - beta in place of beta."""
    beta = Decimal(s.beta)
    if s.reading == "exception":
        beta = 1 - beta
    return beta * phi(psi1) / (beta * phi(psi1) + (1 - beta) * phi(psi0))


def uncollected_posterior(psi1: Decimal, psi0: Decimal, s: Switches) -> Decimal:
    """Return w~u, with phi^u = 1 - phi^l as the paper defines it, or with phi^l (METHOD 2)."""
    alpha = Decimal(s.alpha)
    phi1, phi0 = phi(psi1), phi(psi0)
    if s.unlabeled_form == "literal":
        phi1, phi0 = 1 - phi1, 1 - phi0
    return alpha * phi1 / (alpha * phi1 + (1 - alpha) * phi0)


def star(collected: Decimal, uncollected: Decimal, s: Switches) -> Decimal:
    """Return phi*: the printed sign, or that of the constraint phi^u(s^l) < phi^u(s^u)."""
    if s.reading == "printed":
        return phi(uncollected - collected)
    return phi(collected - uncollected)


def kl(weight: Decimal, prior: Decimal) -> Decimal:
    """Return KL(Bernoulli(weight) || Bernoulli(prior))."""
    pairs = ((weight, prior), (1 - weight, 1 - prior))
    return sum((p * (p / q).ln() for p, q in pairs if p > 0), Decimal(0))


def likelihood(weight: Decimal, phi1: Decimal, phi0: Decimal) -> Decimal:
    return weight * phi1.ln() + (1 - weight) * phi0.ln()


def free_weight(prior: Decimal, phi1: Decimal, phi0: Decimal, s: Switches) -> Decimal:
    """Return w of one fact: w~ itself, or METHOD 5's optimum, w~ tilted by the likelihood."""
    if s.estimate == "em":
        return prior
    gain = phi1.ln() - phi0.ln() - Decimal(s.reg_weight)
    odds = prior / (1 - prior) * (gain / Decimal(s.kl_weight)).exp()
    return odds / (1 + odds)


def fact_objective(
    weight: Decimal, prior: Decimal, phi1: Decimal, phi0: Decimal, s: Switches
) -> Decimal:
    """Return one fact's share of L_triple + L_KL + L_reg."""
    penalty = Decimal(s.kl_weight) * kl(weight, prior) + Decimal(s.reg_weight) * weight
    return -likelihood(weight, phi1, phi0) + penalty


@dataclass(frozen=True)
class Terms:
    """The loss, its terms, and the weights that it was taken at."""

    triple: Decimal
    kl: Decimal
    reg: Decimal
    total: Decimal
    weights: tuple[Numbers, list[Numbers]]


def literal_terms(
    heads: Heads, s: Switches, weights: tuple[Numbers, list[Numbers]] | None = None
) -> Terms:
    """Return the objective by loops over i and k; ``weights`` are W where they are given.

    A pair without an uncollected fact is not in the sums, nor in the number they are divided by.
    """
    collected1, collected0 = exact(heads.collected1), exact(heads.collected0)
    there = heads.weight.bool().tolist()
    count_l, count_u = len(collected1), sum(map(sum, there))
    triple = divergence = norm = Decimal(0)
    used_l: Numbers = []
    used_u: list[Numbers] = []
    for i in range(count_l):
        psi1, psi0 = collected1[i], collected0[i]
        prior = collected_posterior(psi1, psi0, s)
        w = weights[0][i] if weights else free_weight(prior, phi(psi1), phi(psi0), s)
        used_l.append(w)
        used_u.append([])
        triple -= likelihood(w, phi(psi1), phi(psi0)) / count_l
        divergence += kl(w, prior) / count_l
        norm += w / count_l
        pairs = zip(exact(heads.uncollected1[i]), exact(heads.uncollected0[i]), strict=True)
        for k, (u1, u0) in enumerate(pairs):
            prior = uncollected_posterior(u1, u0, s)
            star1, star0 = star(psi1, u1, s), star(psi0, u0, s)
            w = weights[1][i][k] if weights else free_weight(prior, star1, star0, s)
            used_u[i].append(w)
            if there[i][k]:
                triple -= likelihood(w, star1, star0) / count_u
                divergence += kl(w, prior) / count_u
                norm += w / count_u
    total = triple + Decimal(s.kl_weight) * divergence + Decimal(s.reg_weight) * norm
    return Terms(triple, divergence, norm, total, (used_l, used_u))


SCORES = ("collected1", "collected0", "uncollected1", "uncollected0")


def literal_gradients(heads: Heads, s: Switches) -> dict[str, Tensor]:
    """Return central differences of the total, W held at its value, for every score."""
    step = 2.0**-30
    with decimal.localcontext(prec=50):
        weights = literal_terms(heads, s).weights
        found = {}
        for name in SCORES:
            scores: Tensor = getattr(heads, name)
            slope = torch.empty(scores.numel(), dtype=torch.float64)
            for place in range(scores.numel()):
                total = []
                for sign in (1, -1):
                    moved = scores.detach().clone()
                    moved.view(-1)[place] += sign * step
                    total.append(literal_terms(replace(heads, **{name: moved}), s, weights).total)
                slope[place] = float(total[0] - total[1]) / (2 * step)
            found[name] = slope.view_as(scores)
    return found


def random_heads(
    facts: int = 4, count: int = 3, seed: int = 0, masked: bool = False, scale: float = 1.5
) -> Heads:
    """Draw the scores of a batch in float64; ``masked`` takes out one row and one pair."""
    rng = generator(seed)

    def scores(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng, dtype=torch.float64) * scale

    weight = torch.ones(facts, count, dtype=torch.float64)
    if masked:
        weight[1] = 0
        weight[-1, -1] = 0
    parts = (scores(facts), scores(facts), scores(facts, count), scores(facts, count))
    return Heads(*parts, weight)


def with_gradients(heads: Heads) -> Heads:
    """Return a copy whose scores are leaves that want gradients."""
    leaves = {name: getattr(heads, name).clone().requires_grad_() for name in SCORES}
    return replace(heads, **leaves)


Neighbour = tuple[int, int, int]


def literal_neighbours(
    facts: Sequence[tuple[int, int, int]],
    num_entities: int,
    num_relations: int,
    credibility: Sequence[float],
    cap: int,
    hidden: Collection[int] = (),
) -> list[list[Neighbour]]:
    """Return N_e of every entity, as (neighbour, relation, number of the fact).

    METHOD 7 and 8: both directions, an inverse relation of its own, the top ``cap`` facts, and
    none of the hidden ones.
    """
    result = []
    for entity in range(num_entities):
        mine = []
        for number, (head, relation, tail) in enumerate(facts):
            if head == entity:
                mine.append((tail, relation, number))
            if tail == entity:
                mine.append((head, relation + num_relations, number))
        mine.sort(key=lambda edge: (-credibility[edge[2]], edge[2]))
        result.append([edge for edge in mine[:cap] if edge[2] not in hidden])
    return result


def literal_layer(
    entities: Tensor,
    relations: Tensor,
    neighbours: list[list[Neighbour]],
    attention: Tensor,
    mix: Tensor,
) -> Tensor:
    """Return h^l of every entity, with q = a (h_e || h_i || h_r) and a [3d] as printed."""
    result = []
    for entity, mine in enumerate(neighbours):
        q = [
            torch.dot(attention, torch.cat([entities[entity], entities[i], relations[r]]))
            for i, r, _ in mine
        ]
        below = sum(torch.exp(value) for value in q)
        total = torch.zeros_like(entities[entity])
        for value, (i, _, _) in zip(q, mine, strict=True):
            total = total + torch.exp(value) / below * (entities[i] @ mix)
        result.append(entities[entity] + torch.tanh(total))
    return torch.stack(result)


def chosen_neighbours(encoder: NeighbourAttention) -> list[set[Neighbour]]:
    """Return what an encoder took for N_e of every entity, in the form of literal_neighbours."""
    found: list[set[Neighbour]] = [set() for _ in range(len(encoder.tables.entities))]
    rows = (encoder.edge_entity, encoder.edge_neighbour, encoder.edge_relation, encoder.edge_fact)
    for entity, neighbour, relation, number in torch.stack(rows, 1).tolist():
        found[entity].add((neighbour, relation, number))
    return found
