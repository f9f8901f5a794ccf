"""TransR shares projections between queries of one relation; its formula is elsewhere."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from npugraph.errors import SettingsError
from npugraph.graph import SIDES, Side
from npugraph.scorers import TransR, grouped
from npugraph.scorers.grouped import same_rows
from npugraph.scorers.transr import Scaling
from scorer_cases import tables

KNOWN = torch.tensor([5, 1, 1, 9, 30, 2, 8, 8])
ASKED = torch.tensor([0, 3, 0, 3, 3, 1, 0, 0])
SCALINGS: list[Scaling] = ["normalize", "clamp", "none"]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_entities_are_projected_once_a_relation(
    side: Side, scaling: Scaling, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = TransR(2, scaling)
    entities, relations = tables(scorer)
    shapes = []
    project = scorer._project

    def counted(vectors: Tensor, matrix: Tensor) -> Tensor:
        shapes.append((vectors.shape, matrix.dim()))
        return project(vectors, matrix)

    monkeypatch.setattr(scorer, "_project", counted)
    scorer.score_all(entities[KNOWN], relations[ASKED], entities, side)
    assert shapes.count((entities.shape, 2)) == 3
    assert all(dims == 2 for _, dims in shapes)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_table_gets_the_gradient_of_every_query(side: Side, scaling: Scaling) -> None:
    """Through shared projections and without: a batch that repeats relations."""
    scorer = TransR(1, scaling)
    entities, relations = (table.requires_grad_() for table in tables(scorer))
    weight = torch.randn(len(KNOWN), len(entities), generator=torch.Generator().manual_seed(1))
    known, by = entities[KNOWN], relations[ASKED]
    shared = scorer.score_all(known, by, entities, side)
    ends = known.unsqueeze(1), entities
    head, tail = ends if side == "tail" else ends[::-1]
    single = scorer.score(head, by.unsqueeze(1), tail)
    torch.testing.assert_close(shared, single)
    found, expected = (
        torch.autograd.grad((scores * weight).sum(), (entities, relations), retain_graph=True)
        for scores in (shared, single)
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("side", SIDES)
def test_groups_of_queries_have_entities_of_their_own(side: Side) -> None:
    scorer = TransR(1, "clamp", relation_dimension=3)
    entities, relations = tables(scorer)
    known, by = entities[KNOWN].view(2, 4, -1), relations[ASKED].view(2, 4, -1)
    pool = torch.stack([entities[:20], entities[20:40]])
    found = scorer.score_all(known, by, pool, side)
    parts = zip(known, by, pool, strict=True)
    expected = torch.stack([scorer.score_all(*part, side) for part in parts])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    shared = scorer.score_all(known[:1], by[:1], pool[:1], side)
    torch.testing.assert_close(shared, expected[:1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_the_answer_of_a_perfect_fit_comes_first(side: Side, scaling: Scaling) -> None:
    """Coordinates are left out by the matrix: what differs there alone fits as well."""
    scorer = TransR(2, scaling, relation_dimension=2)
    entities = torch.tensor([[0.6, 0.8, 5.0], [0.6, 0.8, -7.0], [0.8, 0.6, 5.0]])
    matrix = torch.eye(3)[:, :2]
    shift = torch.zeros(1, 2)
    relation = torch.cat([shift, matrix.reshape(1, -1)], 1)
    scores = scorer.score_all(entities[:1], relation, entities, side)
    assert scores[0, :2].tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
    assert scores[0, 2].item() == pytest.approx(-(0.08**0.5))


def test_an_identity_without_scaling_is_transe() -> None:
    scorer = TransR(2, "none")
    entities = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    shift = torch.randn(2, 4, generator=torch.Generator().manual_seed(1))
    relation = torch.cat([shift, torch.eye(4).reshape(1, -1).expand(2, -1)], 1)
    found = scorer.score_all(entities[:2], relation, entities, "tail")
    expected = -torch.linalg.vector_norm((entities[:2] + shift)[:, None] - entities, dim=-1)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("options", [{"p": 3}, {"scaling": "unit"}])
def test_unknown_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match="must be"):
        TransR(**options)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.booleans(), st.integers(1, 4))
def test_rows_are_told_apart_by_all_of_their_columns(
    which: list[int], late: bool, checked: int
) -> None:
    """Whether rows differ in the columns that are looked at first, or in later ones alone."""
    width = grouped.KEY_COLUMNS + 3
    table = torch.zeros(4, width)
    table[:, -1 if late else 0] = torch.arange(4.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped, "CHECKED_ROWS", checked)
        group = same_rows(table[torch.tensor(which)]).tolist()
    for i, one in enumerate(which):
        assert [group[i] == g for g in group] == [one == other for other in which]
