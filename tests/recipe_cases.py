"""Small settings for every recipe, and graphs to try them on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch

from npugraph.graph import KnowledgeGraph, Splits, Vocabulary
from npugraph.recipes import RECIPES
from npugraph.settings import TrainSettings, make_settings


@dataclass(frozen=True)
class RecipeCase:
    """A recipe with settings that make it quick.

    Attributes:
        recipe: its name.
        values: what differs from the defaults of the recipe and from COMMON.
        mrr: what it must reach on the graph of groups, where chance reaches less than 0.2.
    """

    recipe: str
    values: Mapping[str, Any] = field(default_factory=dict)
    mrr: float = 0.6

    def settings(self, **changes: Any) -> TrainSettings:
        kind = RECIPES[self.recipe].settings
        return make_settings(kind, {**COMMON, **self.values, **changes})


COMMON = {"device": "cpu", "batch_size": 64, "validate_every": 4}
FAST = {"learning_rate": 0.03, "epochs": 12, "d": 16}
DRAWN = {**FAST, "negatives": 16}
TRANSLATION = {"d": 16, "epochs": 25, "batch_size": 32}
COMPGCN = {**FAST, "epochs": 30, "batch_size": 32, "width": 16}
COMPGCN |= {"dropout": 0.05, "hidden_dropout": 0.05}
CONVE = {"height": 4, "filters": 4, "kernel": 3, "feature_dropout": 0.05, "decoder_dropout": 0.05}
NPU = {**DRAWN, "epochs": 25, "batch_size": 32, "hidden": 16, "warmup": 10, "neighbours": 6}
NPU |= {"dropout": 0.0, "hidden_dropout": 0.0, "init_scale": 0.5}
PATHS = {"draws": 2, "d": 8, "layers": 3, "epochs": 6, "learning_rate": 0.02, "epoch_share": 0.7}
WEIGHED = {
    "paths": "npugraph-path",
    "question_weights": "posterior",
    "posterior_kinds": "all",
}
PLUS = {**PATHS, "complex_d": 8, "complex_epochs": 12, "complex_learning_rate": 0.05}
SOFT = {"soft_facts": 0.1, "refresh": 1, "judged_share": 0.5, "hide_pair_share": 0.5}
# Two perceptrons that only learn which half of the graph an answer is in reach 0.2.
PERCEPTRON = 0.6
CASES = {
    "transe": RecipeCase("transe", TRANSLATION),
    "transr": RecipeCase("transr", {**TRANSLATION, "d": 8}),
    "distmult": RecipeCase("distmult", DRAWN, mrr=0.5),
    "complex": RecipeCase("complex", DRAWN),
    "complex, shared": RecipeCase("complex", {**DRAWN, "share": 8}),
    "rotate": RecipeCase("rotate", DRAWN, mrr=0.5),
    "rgcn": RecipeCase("rgcn", {**FAST, "negatives": 4}),
    "compgcn": RecipeCase("compgcn", {**COMPGCN, **CONVE, "hidden_dropout": 0.0}),
    "compgcn, distmult": RecipeCase(
        "compgcn", {**COMPGCN, "decoder": "distmult", "composition": "mult"}
    ),
    "compgcn, transe": RecipeCase(
        "compgcn", {**COMPGCN, "decoder": "transe", "composition": "sub", "gamma": 9.0}
    ),
    "ukge": RecipeCase("ukge", FAST),
    "ukge, rect": RecipeCase("ukge", {**FAST, "link": "rect"}),
    "nscaching": RecipeCase("nscaching", {**FAST, "cache": 6, "extra": 6}),
    "nscaching, transe": RecipeCase(
        "nscaching", {**TRANSLATION, "epochs": 40, "scorer": "transe", "learning_rate": 0.02}
    ),
    "sans": RecipeCase("sans", {**DRAWN, "hops": 3, "cap": 30}, mrr=0.5),
    # Two steps never leave an entity's own half of this graph: the other half is not learned.
    "sans, walks": RecipeCase("sans", {**DRAWN, "kind": "walks", "walks": 50}, mrr=0.4),
    "puda": RecipeCase("puda", FAST),
    "npugraph": RecipeCase("npugraph", NPU, PERCEPTRON),
    "npugraph, closed": RecipeCase(
        "npugraph", {**NPU, "estimate": "closed", "init_scale": 0.1}, PERCEPTRON
    ),
    "npugraph, shared": RecipeCase("npugraph", {**NPU, "share": 4}, PERCEPTRON),
    "npugraph/no-npu": RecipeCase("npugraph/no-npu", NPU, PERCEPTRON),
    "npugraph/no-lp-encoder": RecipeCase(
        "npugraph/no-lp-encoder", {**NPU, "neighbours": 0}, PERCEPTRON
    ),
    "npugraph/no-self-training": RecipeCase("npugraph/no-self-training", NPU, PERCEPTRON),
    "npugraph/printed": RecipeCase("npugraph/printed", NPU, PERCEPTRON),
    "npugraph/bilinear": RecipeCase("npugraph/bilinear", NPU),
    "complex-n3": RecipeCase("complex-n3", FAST),
    "complex-n3, drawn": RecipeCase("complex-n3", {**FAST, "negatives": 16, "share": 8}),
    "path": RecipeCase("path", PATHS),
    "path, pairs hidden": RecipeCase("path", {**PATHS, "hide_pair_share": 0.5, "answers": 1}),
    "path, reached": RecipeCase("path", {**PATHS, "reached_only": True}),
    "path, members": RecipeCase("path", {**PATHS, "members": 2}),
    "npugraph-plus": RecipeCase("npugraph-plus", PLUS),
    "npugraph-plus, members": RecipeCase("npugraph-plus", {**PLUS, "members": 2}),
    "npugraph-plus, unlinked": RecipeCase("npugraph-plus", {**PLUS, "weight_by": "unlinked"}),
    "npugraph-plus, weighed": RecipeCase(
        "npugraph-plus", {**PLUS, **SOFT, **WEIGHED, "members": 2}
    ),
    "npugraph-path": RecipeCase("npugraph-path", {**PATHS, "question_weights": "posterior"}),
    "npugraph-path, soft": RecipeCase("npugraph-path", {**PATHS, **SOFT}),
    "npugraph-path, npu": RecipeCase("npugraph-path", {**PATHS, "objective": "npu"}),
    "inverse-rule": RecipeCase("inverse-rule"),
    # At chance by definition: it need not beat itself.
    "random": RecipeCase("random", mrr=0.0),
}
# They have no parameters: their loss is 0, and their seed does not change a loss.
LEARN_NOTHING = ("inverse-rule", "random")


@cache
def groups() -> Splits:
    """Eight groups of five: a and c lead from the first four to the others, b and d back.

    Symmetric scores can tell it, and so can translations.
    """
    facts = []
    for i in range(20):
        for j in range(20, 40):
            step = (j // 5 - i // 5) % 4
            if step < 2:
                facts += [[i, 2 * step, j], [j, 2 * step + 1, i]]
    entities = Vocabulary.of([f"e{i:02}" for i in range(40)], "entity")
    graph = KnowledgeGraph(entities, Vocabulary.of(list("abcd")), torch.tensor(facts))
    return replace(graph, name="groups").split(valid_share=0.1, test_share=0.1)


def made_of(facts: list[list[int]], entities: int, relations: int, name: str) -> Splits:
    """Return splits with the last two facts of a list held out, one each."""
    words = (Vocabulary.of([f"e{i:02}" for i in range(entities)], "entity"),)
    words += (Vocabulary.of([f"r{i}" for i in range(relations)], "relation"),)
    whole = KnowledgeGraph(*words, torch.tensor(facts))
    number = torch.arange(len(whole))
    valid, test = (whole.select(number == len(whole) - place) for place in (2, 1))
    return Splits(name, whole.select(number < len(whole) - 2), valid, test)


RING = [[i, 0, (i + 1) % 12] for i in range(12)]
ODD_GRAPHS = {
    "one relation": made_of(RING, 12, 1, "one relation"),
    # Entities 12 to 15 and relation 1 are in no fact.
    "isolated": made_of(RING, 16, 2, "isolated"),
    "repeated": made_of(RING[:5] * 3 + RING, 12, 1, "repeated"),
    # 0 leads everywhere, and everything to 0: nothing is left to draw. 1 leads to itself.
    "full": made_of(
        [[0, 0, i] for i in range(6)] + [[i, 0, 0] for i in range(6)] + [[1, 0, 1], [2, 0, 3]] * 2,
        6,
        1,
        "full",
    ),
    "one fact": made_of([[0, 0, 1], [1, 0, 2], [2, 0, 0]], 3, 1, "one fact"),
}
