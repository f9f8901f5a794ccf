"""The view pairs: nothing that was said of two entities is known where they are judged."""

from __future__ import annotations

from pathlib import Path

import torch

from audit_samples import FAST, anonymous, random_facts, sample
from npugraph.auditing import AuditSettings, audit
from npugraph.auditing.folds import make_folds
from npugraph.auditing.views.pairs import PairsView, folds_by_pair, name_codes, pair_fold
from npugraph.graph import Vocabulary


def test_facts_between_two_entities_share_a_fold() -> None:
    facts = random_facts(300, 12, 4, 0)
    folds = folds_by_pair(make_folds(anonymous(facts, 12, 4), 3, 0), 0)
    seen: dict[frozenset[int], int] = {}
    for (head, _, tail), fold in zip(folds.graph.facts.tolist(), folds.fold.tolist(), strict=True):
        assert seen.setdefault(frozenset((head, tail)), fold) == fold
    assert set(seen.values()) == {0, 1, 2}
    other = pair_fold(folds.graph.facts, name_codes(folds.graph.entities, 1), 3)
    assert not torch.equal(folds.fold, other)


def test_pairs_spread_evenly() -> None:
    facts = random_facts(20_000, 2000, 1, 0)
    codes = name_codes(anonymous(facts, 2000, 1).entities, 0)
    sizes = torch.bincount(pair_fold(facts, codes, 5), minlength=5) / len(facts)
    assert (sizes - 0.2).abs().max() < 0.02


def test_a_pair_keeps_its_fold_when_other_names_come() -> None:
    before, after = Vocabulary.of(["b", "c", "d"]), Vocabulary.of(["a", "b", "bb", "c", "d"])
    old = pair_fold(torch.tensor([[0, 0, 1], [1, 0, 2]]), name_codes(before, 0), 50)
    new = pair_fold(torch.tensor([[1, 0, 3], [3, 0, 4]]), name_codes(after, 0), 50)
    assert torch.equal(old, new)


def test_no_system_knows_a_fact_of_a_pair_that_it_judges(tmp_path: Path) -> None:
    settings = AuditSettings(views=("embedding", "pairs"), folds=3, missing=0, compared=16)
    found = audit(sample(), settings, FAST, out=tmp_path)
    view = found.crossfit.views[1]
    assert isinstance(view, PairsView)
    assert (tmp_path / "pairs" / "fold-3" / "model.safetensors").is_file()
    features = found.crossfit.collected.features
    columns = [name.startswith("pairs.") for name in found.crossfit.collected.columns]
    facts = found.crossfit.collected.facts
    folds = view.by_pair.folds
    for fold in range(3):
        mine = folds.fold == fold
        expected = view.by_pair.features(facts[mine], fold)
        torch.testing.assert_close(features[mine][:, columns], expected)
        pairs = {frozenset(pair) for pair in facts[mine][:, [0, 2]].tolist()}
        known = {frozenset(pair) for pair in folds.others(fold).facts[:, [0, 2]].tolist()}
        assert not pairs & known
