"""A small graph with regularities, repeats and odd names, for tests of the audit."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from npugraph.auditing import Audit
from npugraph.auditing.statistics.verdict import RELIABLE, Verdict
from npugraph.graph import KnowledgeGraph, Vocabulary

# Settings that train in a moment.
FAST = {"d": 8, "epochs": 3, "validate_every": 1, "device": "cpu"}

Names = tuple[str, str, str]


def people(count: int = 60) -> list[Names]:
    """Rows about people, their towns and countries: 5 facts a person, 12 about towns."""
    towns = [f"Großstadt {i}" for i in range(12)]
    lands = [f"国 {i}" for i in range(4)]
    rows = [(town, "in country", lands[i % 4]) for i, town in enumerate(towns)]
    for i in range(count):
        town, land, name = towns[i % 12], lands[i % 12 % 4], f"person {i:03}"
        rows += [
            (name, "lives in", town),
            (name, "citizen of", land),
            (name, "knows", f"person {(i + 12) % count:03}"),
            (f"person {(i + 12) % count:03}", "knows", name),
            (town, "home of", name),
        ]
    return rows


WRONG: list[Names] = [
    ("国 1", "lives in", "person 003"),
    ("person 001", "in country", "Großstadt 2"),
    ("person 004", "citizen of", "person 030"),
    ("Großstadt 4", "knows", "国 2"),
    ("hermit", "lives in", "国 3"),
    ("person 011", "home of", "Großstadt 9"),
]
REPEATED = 4


def rows(count: int = 36) -> list[Names]:
    """All rows: right, wrong, and the first few once more."""
    right = people(count)
    return [*right, *WRONG, *right[:REPEATED]]


def graph_of(
    names: list[Names], *, extra: tuple[str, ...] = (), source: str = ""
) -> KnowledgeGraph:
    """Return a graph of labelled rows; ``extra`` entities are in no fact."""
    entities = Vocabulary.of([e for h, _, t in names for e in (h, t)] + list(extra), "entity")
    relations = Vocabulary.of([r for _, r, _ in names], "relation")
    facts = [[entities.id(h), relations.id(r), entities.id(t)] for h, r, t in names]
    return KnowledgeGraph(entities, relations, torch.tensor(facts), source=source)


def sample() -> KnowledgeGraph:
    """Return the graph of all rows, with one entity that is in no fact."""
    return graph_of(rows(), extra=("nobody",), source="people")


def random_facts(count: int, num_entities: int, num_relations: int, seed: int) -> Tensor:
    """Return distinct random facts [n, 3], at most ``count``, in no order."""
    rng = torch.Generator().manual_seed(seed)
    sizes = (num_entities, num_relations, num_entities)
    drawn = torch.stack([torch.randint(n, (count,), generator=rng) for n in sizes], 1)
    drawn = torch.unique(drawn, dim=0)
    return drawn[torch.randperm(len(drawn), generator=rng)]


def anonymous(facts: Tensor, num_entities: int, num_relations: int) -> KnowledgeGraph:
    """Return a graph of facts [n, 3] by id."""
    entities = Vocabulary.of([f"e{i:04}" for i in range(num_entities)], "entity")
    relations = Vocabulary.of([f"r{i:04}" for i in range(num_relations)], "relation")
    return KnowledgeGraph(entities, relations, facts)


def called_reliable(found: Audit) -> Audit:
    """Return an audit with other verdicts than its own: all is reliable."""
    told = dataclasses.replace(found)
    for name in ("verdict", "missing_verdict"):
        # What a cached property would have found.
        told.__dict__[name] = Verdict(RELIABLE, "By decree.")
    return told
