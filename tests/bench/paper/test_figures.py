"""Figures: the right points, legends that cover nothing, files that are the same each time."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from npugraph.bench.paper.figures import Drawing, looks, make_figures, write_figures
from npugraph.bench.plan import BenchPlan
from npugraph.errors import DataError

from ..bench_samples import cost, lines, made_up, sample_plan, sweep_plan


def draw(*plans: BenchPlan) -> dict[str, Drawing]:
    cells = [cell for plan in plans for cell in plan.cells()]
    return {d.name: d for d in make_figures(plans, *lines(cells))}


def points(drawing: Drawing, panel: int, label: str) -> list[tuple[float, float]]:
    """The points of the line that the legend calls so."""
    axes = drawing.figure.axes[panel]
    handles, labels = axes.get_legend_handles_labels()
    line = handles[labels.index(label)]
    line = line[0] if isinstance(line, tuple) else line
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def test_nothing_is_drawn_of_what_did_not_run() -> None:
    plan = sample_plan(rates=[0.1, 0.3])
    assert make_figures([plan], {}, {}) == []


def test_learning_curves_show_every_seed() -> None:
    plan = sample_plan()
    drawing = draw(plan)["sample-curves-fb15k-237-0.3"]
    axes = drawing.figure.axes[0]
    assert len(axes.lines) == len(plan.cells())
    assert axes.get_legend_handles_labels()[1] == ["ComplEx-N3", "nPUGraph", "RotatE", "UKGE"]
    cell = next(c for c in plan.cells() if c.label == "RotatE")
    assert points(drawing, 0, "RotatE")[-1] == (16, made_up(cell) * (1 - 0.8**16))


def test_the_rate_figure_has_ours_and_the_papers_points() -> None:
    plan = sample_plan(rates=[0.1, 0.3, 0.7])
    drawing = draw(plan)["sample-rates-fb15k-237"]
    ours = points(drawing, 0, "RotatE")
    assert [x for x, _ in ours] == [0.1, 0.3, 0.7]
    at = [made_up(c) for c in plan.cells() if c.label == "RotatE" and c.rate == 0.7]
    assert ours[-1][1] == pytest.approx(sum(at) / 3)
    theirs = [list(line.get_ydata()) for line in drawing.figure.axes[1].lines]
    # nPUGraph, RotatE, UKGE at the paper's four rates; it has no ComplEx-N3.
    assert [0.328, 0.287, 0.258, 0.243] in theirs
    assert len(theirs) == 3


def test_the_rates_of_several_plans_make_one_line() -> None:
    found = draw(sample_plan(rates=[0.3]), sample_plan(name="more", rates=[0.1, 0.7]))
    assert [x for x, _ in points(found["all-rates-fb15k-237"], 0, "nPUGraph")] == [0.1, 0.3, 0.7]


def test_a_stand_in_has_no_panel_of_the_paper() -> None:
    plan = sample_plan(graphs=["twitter-ego"], rates=[0.1, 0.3])
    assert len(draw(plan)["sample-rates-twitter-ego"].figure.axes) == 1


def test_the_sweep_of_k_shows_mrr_and_seconds() -> None:
    plan = sweep_plan("negatives", [10, 30, 50], seeds=[0])
    drawing = draw(plan)["sample-negatives-fb15k-237-0.3"]
    swept = [cell for cell in plan.cells() if cell.sweep]
    assert points(drawing, 0, "perturbed filter") == [
        (k, pytest.approx(lines([c])[0][c.key]["metrics"]["perturbed"]["mrr"]))
        for k, c in zip((10, 30, 50), swept, strict=True)
    ]
    assert points(drawing, 1, "seconds") == [
        (k, pytest.approx(cost(c)["seconds"]["train"]))
        for k, c in zip((10, 30, 50), swept, strict=True)
    ]


def test_seconds_beside_other_work_are_not_drawn() -> None:
    plan = sweep_plan("negatives", [10, 30, 50], seeds=[0])
    results, costs = lines(plan.cells())
    costs = {key: {**line, "shared": True} for key, line in costs.items()}
    drawings = {drawing.name: drawing for drawing in make_figures([plan], results, costs)}
    assert len(drawings["sample-negatives-fb15k-237-0.3"].figure.axes) == 1


def test_a_system_with_one_rate_is_not_in_the_rate_figure() -> None:
    everyone = sample_plan(rates=[0.3])
    systems = [{"label": "RotatE", "recipe": "rotate"}]
    some = sample_plan(name="more", rates=[0.1, 0.7], systems=systems)
    drawing = draw(everyone, some)["all-rates-fb15k-237"]
    assert drawing.figure.axes[0].get_legend_handles_labels()[1] == ["RotatE"]


def test_the_sweep_of_alpha_is_drawn_in_powers_and_without_seconds() -> None:
    plan = sweep_plan("alpha", [0.1, 0.01, 0.0001], seeds=[0, 1])
    drawing = draw(plan)["sample-alpha-fb15k-237-0.3"]
    assert len(drawing.figure.axes) == 1
    assert drawing.figure.axes[0].get_xscale() == "log"
    assert [x for x, _ in points(drawing, 0, "clean filter")] == [0.0001, 0.01, 0.1]


def test_legends_cover_no_data() -> None:
    plan = sample_plan(rates=[0.1, 0.7])
    sweep = sweep_plan("alpha", [0.1, 0.01], seeds=[0, 1], name="sweep")
    for drawing in draw(plan, sweep).values():
        drawing.figure.draw_without_rendering()
        legends = list(drawing.figure.legends)
        legends += [a.get_legend() for a in drawing.figure.axes if a.get_legend()]
        assert legends
        for legend, axes in itertools.product(legends, drawing.figure.axes):
            box = legend.get_window_extent()
            for line in axes.lines:
                for point in axes.transData.transform(line.get_xydata()):
                    assert not box.contains(*point), drawing.name


def test_no_two_systems_look_alike() -> None:
    given = looks([f"system {i}" for i in range(25)] + ["nPUGraph"])
    styles = {tuple(sorted(look.items())) for look in given.values()}
    assert len(styles) == 26
    # Not by colour alone: equal colours differ in marker and line.
    for one, other in itertools.combinations(given.values(), 2):
        if one["color"] == other["color"]:
            assert one["marker"] != other["marker"]
            assert one["linestyle"] != other["linestyle"]


def test_the_same_results_give_the_same_files(tmp_path: Path) -> None:
    plan = sample_plan(rates=[0.1, 0.3], seeds=[0, 1])
    first, second = (
        write_figures(list(draw(plan).values()), tmp_path / name) for name in ("a", "b")
    )
    assert sorted(p.suffix for p in first) == [".png"] * 3 + [".svg"] * 3
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        write_figures(list(draw(sample_plan(seeds=[0])).values()), tmp_path / "file")


def test_of_two_plans_with_one_rate_the_first_counts() -> None:
    first = sample_plan(rates=[0.1, 0.3], seeds=[0])
    second = sample_plan(name="more", rates=[0.3, 0.7], seeds=[1])
    drawing = draw(first, second)["all-rates-fb15k-237"]
    cell = next(c for c in first.cells() if c.label == "RotatE" and c.rate == 0.3)
    assert dict(points(drawing, 0, "RotatE"))[0.3] == made_up(cell)
