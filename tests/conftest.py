"""Fixtures that several test files share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from browser import axe, browser
from data_needed import data_absent
from npugraph.graph import KnowledgeGraph, Vocabulary
from npugraph.scorers import Scorer
from scorer_cases import CASES, Case

# One browser for all tests: Playwright refuses a second one beside it.
__all__ = ["axe", "browser"]

# No deadline: a slow machine is no bug.
settings.register_profile("npugraph", deadline=None, max_examples=60)
settings.load_profile("npugraph")

# Tests that run in the background ignore Ctrl-C, and what they start would do so, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def own_modules(tmp_path: Path) -> Iterator[None]:
    """Modules that a test imports from its folder are gone after it: the next has its own."""
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of public graphs, one subfolder per graph."""
    given = os.environ.get("NPUGRAPH_DATA")
    if not given:
        data_absent("needs the public graphs: set NPUGRAPH_DATA to the folder that holds them")
    root = Path(given)
    if not root.is_dir():
        data_absent(f"NPUGRAPH_DATA={given} is not a folder")
    return root


@pytest.fixture(scope="session")
def golden_root() -> Path:
    """The folder of PyKEEN's scores and ranks."""
    given = os.environ.get("NPUGRAPH_GOLDEN")
    root = Path(given) if given else Path(__file__).parents[2] / "shared" / "golden"
    if not (root / "metrics.json").is_file():
        data_absent(f"needs PyKEEN's golden files, not found in {root}: set NPUGRAPH_GOLDEN")
    return root


@pytest.fixture
def toy_graph() -> KnowledgeGraph:
    """Six facts over five entities: one repeats an earlier one, one is a loop, "e" is in none."""
    entities = Vocabulary.of(["a", "b", "c", "d", "e"], "entity")
    relations = Vocabulary.of(["likes", "knows"], "relation")
    rows = [("a", "b"), ("b", "c"), ("a", "b"), ("c", "c"), ("d", "a"), ("a", "c")]
    names = ["knows", "knows", "knows", "likes", "likes", "likes"]
    facts = torch.tensor(
        [
            [entities.id(head), relations.id(name), entities.id(tail)]
            for (head, tail), name in zip(rows, names, strict=True)
        ]
    )
    return KnowledgeGraph(
        entities,
        relations,
        facts,
        confidence=torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], dtype=torch.float64),
        label=torch.tensor([1, 1, 1, 0, 0, 1], dtype=torch.int8),
        source="toy",
    )


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def scorer(case: Case) -> Scorer:
    return case.make()
