"""Small settings for every recipe, and graphs to try them on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from npugraph.graph import KnowledgeGraph, Splits, Vocabulary, split_facts
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
CONVE = {"width": 16, "height": 4, "filters": 4, "kernel": 3}
NPU = {**FAST, "epochs": 25, "hidden": 16, "negatives": 16, "warmup": 10, "neighbours": 6}
NPU |= {"dropout": 0.1, "hidden_dropout": 0.1}
CASES = {
    "transe": RecipeCase("transe", {"d": 16, "epochs": 25, "batch_size": 32}),
    "transr": RecipeCase("transr", {"d": 8, "epochs": 25, "batch_size": 32}),
    "distmult": RecipeCase("distmult", DRAWN),
    "complex": RecipeCase("complex", DRAWN),
    "complex, shared": RecipeCase("complex", {**DRAWN, "share": 8}),
    "rotate": RecipeCase("rotate", DRAWN),
    "rgcn": RecipeCase("rgcn", {**FAST, "negatives": 4}),
    "compgcn": RecipeCase("compgcn", {**FAST, **CONVE, "epochs": 30}),
    "compgcn, distmult": RecipeCase(
        "compgcn", {**FAST, "width": 16, "decoder": "distmult", "composition": "mult"}
    ),
    "compgcn, transe": RecipeCase(
        "compgcn",
        {**FAST, "epochs": 30, "width": 16, "decoder": "transe", "composition": "sub", "gamma": 9.0},
    ),
    "ukge": RecipeCase("ukge", FAST),
    "ukge, rect": RecipeCase("ukge", {**FAST, "link": "rect"}),
    "nscaching": RecipeCase("nscaching", {**FAST, "cache": 6, "extra": 6}),
    "nscaching, transe": RecipeCase(
        "nscaching",
        {"d": 16, "epochs": 40, "scorer": "transe", "learning_rate": 0.02, "batch_size": 32},
    ),
    "sans": RecipeCase("sans", {**DRAWN, "hops": 3, "cap": 30}),
    # Two steps never leave an entity's own part of this graph: what is outside is not learned.
    "sans, walks": RecipeCase("sans", {**DRAWN, "kind": "walks", "walks": 50}, mrr=0.45),
    "puda": RecipeCase("puda", FAST),
    "npugraph": RecipeCase("npugraph", NPU),
    "npugraph, closed": RecipeCase("npugraph", {**NPU, "estimate": "closed"}),
    "npugraph/no-npu": RecipeCase("npugraph/no-npu", NPU),
    "npugraph/no-lp-encoder": RecipeCase("npugraph/no-lp-encoder", {**NPU, "neighbours": 0}),
    "npugraph/no-self-training": RecipeCase("npugraph/no-self-training", NPU),
    "npugraph/printed": RecipeCase("npugraph/printed", NPU),
    "npugraph/bilinear": RecipeCase("npugraph/bilinear", NPU),
    "complex-n3": RecipeCase("complex-n3", FAST),
    "complex-n3, drawn": RecipeCase("complex-n3", {**FAST, "negatives": 16, "share": 8}),
    "inverse-rule": RecipeCase("inverse-rule"),
    # At chance by definition.
    "random": RecipeCase("random", mrr=0.0),
}


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
    return split_facts(graph, valid_share=0.1, test_share=0.1, name="groups")
