"""Tables: the right figures in the right places, and nothing hidden that did not run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scipy import stats

from npugraph.bench.layout import Block, Part, Table
from npugraph.bench.page import to_html
from npugraph.bench.paper.tables import make_table
from npugraph.bench.plan import BenchPlan, Cell
from npugraph.bench.render import to_latex, to_markdown

from ..bench_samples import MACHINE, failure, lines, made_up, sample_plan, sweep_plan

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def column(part: Part, title: str) -> dict[str, str]:
    """A column of a part: name of the line -> text."""
    place = [c.title for c in part.columns].index(title)
    return {line.name: line.items[place].text for g in part.groups for line in g.lines}


def bold(part: Part, title: str) -> set[str]:
    place = [c.title for c in part.columns].index(title)
    return {line.name for g in part.groups for line in g.lines if line.items[place].best}


def full(plan: BenchPlan) -> Table:
    return make_table(plan, *lines(plan.cells()))


def only_block(table: Table) -> Block:
    assert len(table.blocks) == 1
    return table.blocks[0]


# --- figures


def test_ours_and_the_papers_stand_side_by_side() -> None:
    plan = sample_plan()
    part = only_block(full(plan)).parts[0]
    assert part.title == "Ranking, perturbed filter"
    figures = [made_up(cell) for cell in plan.cells() if cell.label == "RotatE"]
    mean, deviation = sum(figures) / 3, stats.tstd(figures)
    assert column(part, "MRR here")["RotatE"] == f"{mean:.3f} ± {deviation:.3f}"
    paper = {"RotatE": "0.255", "nPUGraph": "0.287", "UKGE": "0.172", "ComplEx-N3": "–"}
    assert column(part, "MRR paper") == paper
    assert column(part, "H@10 paper")["nPUGraph"] == "0.481"
    assert column(part, "seeds") == dict.fromkeys(paper, "3")


def test_both_filters_are_there_and_the_clean_one_has_no_figures_of_the_paper() -> None:
    perturbed, clean, _ = only_block(full(sample_plan())).parts
    assert clean.title == "Ranking, clean filter"
    assert [c.title for c in clean.columns] == ["seeds", "MRR", "H@10", "H@3", "H@1"] + [
        "p against best"
    ]
    for name, text in column(clean, "MRR").items():
        low = float(column(perturbed, "MRR here")[name].split()[0])
        assert float(text.split()[0]) == pytest.approx(1.2 * low, abs=0.001)


def test_noise_calibration_time_and_memory_have_columns() -> None:
    part = only_block(full(sample_plan())).parts[2]
    assert column(part, "noise AUROC held out")["RotatE"] == "0.950 ± 0.000"
    assert column(part, "noise AP train")["RotatE"] == "0.400 ± 0.000"
    assert column(part, "ECE held out") == {
        "RotatE": "–",
        "UKGE": "–",
        "nPUGraph": "0.020 ± 0.000",
        "ComplEx-N3": "–",
    }
    assert column(part, "ranking, s")["UKGE"] == "1.5"
    assert column(part, "memory, MB")["UKGE"] == "1,234"


def test_the_best_of_each_column_is_bold() -> None:
    perturbed, _, other = only_block(full(sample_plan())).parts
    assert bold(perturbed, "MRR here") == {"ComplEx-N3"}
    assert bold(perturbed, "MRR paper") == {"nPUGraph"}
    assert bold(perturbed, "seeds") == set()
    # All equal, so all best; the only one of its column is not best of anything; time is no race.
    assert len(bold(other, "noise AP train")) == 4
    assert bold(other, "ECE train") == set()
    assert bold(other, "training, s") == set()


def test_less_is_better_for_the_calibration_error() -> None:
    plan = sample_plan()
    results, costs = lines(plan.cells())
    for cell in plan.cells():
        results[cell.key]["ece"] = {"RotatE": 0.01, "UKGE": 0.02}.get(cell.label)
    part = make_table(plan, results, costs).blocks[0].parts[2]
    assert bold(part, "ECE train") == {"RotatE"}


def test_systems_stand_in_the_papers_groups() -> None:
    part = only_block(full(sample_plan())).parts[0]
    assert [(g.heading, [line.name for line in g.lines]) for g in part.groups] == [
        ("Knowledge graph embedding", ["RotatE"]),
        ("Uncertain knowledge graph embedding", ["UKGE"]),
        ("nPUGraph", ["nPUGraph"]),
        ("Not in the paper", ["ComplEx-N3"]),
    ]


def test_a_graph_as_published_has_no_noise_and_no_figures_of_the_paper() -> None:
    block = only_block(full(sample_plan(rates=[0.0])))
    assert block.title == "FB15k-237, as published"
    # Both filters are the same there, so one is shown.
    assert [part.title for part in block.parts] == [
        "Ranking, clean filter",
        "Noise, calibration, cost",
    ]
    assert [c.title for c in block.parts[0].columns][:2] == ["seeds", "MRR"]
    assert [c.title for c in block.parts[1].columns][0] == "training, s"
    assert not any("paper" in note or "Noise" in note for note in block.notes)


# --- significance


def test_p_values_are_holms_of_paired_tests_against_the_best() -> None:
    plan = sample_plan()
    part = only_block(full(plan)).parts[0]
    shown = column(part, "p against best")
    by_label = {label: [made_up(c) for c in plan.cells() if c.label == label] for label in shown}
    raw = {
        label: stats.ttest_rel(by_label["ComplEx-N3"], figures).pvalue
        for label, figures in by_label.items()
        if label != "ComplEx-N3"
    }
    assert shown.pop("ComplEx-N3") == "best"
    ranked = sorted(raw, key=raw.__getitem__)
    highest = 0.0
    for i, label in enumerate(ranked):
        highest = max(highest, min(1.0, (3 - i) * raw[label]))
        assert shown[label] == f"{highest:.3f}"


def test_the_notes_name_the_test_its_size_and_its_weakness() -> None:
    notes = " ".join(only_block(full(sample_plan())).notes)
    assert "two-sided paired t test of MRR, ComplEx-N3 against each other system" in notes
    assert "n = 3 pairs, df = 2" in notes
    assert "Holm's correction for 3 comparisons" in notes
    assert "With 3 pairs the test is weak: p < 0.01 needs t beyond 9.9" in notes


def test_one_seed_gives_no_deviation_and_no_test() -> None:
    block = only_block(full(sample_plan(seeds=[0])))
    assert "±" not in column(block.parts[0], "MRR here")["RotatE"]
    assert "p against best" not in [c.title for c in block.parts[0].columns]
    assert block.notes[0] == "One seed: there is no standard deviation and no test."
    assert not any("paired" in note for note in block.notes)


def test_only_seeds_that_both_have_are_paired() -> None:
    plan = sample_plan()
    results, costs = lines(plan.cells())
    gone = [c for c in plan.cells() if (c.label, c.seed) in {("ComplEx-N3", 0), ("RotatE", 1)}]
    for cell in gone:
        del results[cell.key]
    block = make_table(plan, results, costs).blocks[0]
    # ComplEx-N3 has seeds 1 and 2, RotatE 0 and 2: one pair is no test.
    assert column(block.parts[0], "p against best")["RotatE"] == "–"
    assert "n = 2 pairs, df = 1" in " ".join(block.notes)


# --- what did not run


def test_without_results_every_system_is_shown_as_not_run() -> None:
    plan = sample_plan()
    table = make_table(plan, {}, {})
    assert table.state == "12 cells: 12 not run."
    assert len(table.blocks[0].parts) == 1
    assert set(column(table.blocks[0].parts[0], "MRR here").values()) == {"not run"}
    assert column(table.blocks[0].parts[0], "MRR paper")["RotatE"] == "0.255"
    for text in (to_markdown(table), to_latex(table), to_html(table)):
        assert text.count("not run") >= 4


def test_cells_that_failed_or_did_not_run_are_counted_and_named() -> None:
    plan = sample_plan()
    cells = plan.cells()
    results, costs = lines(cells)
    rotate = [c for c in cells if c.label == "RotatE"]
    ukge = [c for c in cells if c.label == "UKGE"]
    results[rotate[1].key] = failure(rotate[1], "the GPU\n  is full.")
    del results[rotate[2].key]
    for cell in ukge:
        results[cell.key] = failure(cell, "nan")
    table = make_table(plan, results, costs)
    assert table.state == "12 cells: 7 done, 4 failed, 1 not run."
    part = table.blocks[0].parts[0]
    assert column(part, "seeds")["RotatE"] == "1 of 3"
    assert column(part, "MRR here")["RotatE"] == f"{made_up(rotate[0]):.3f}"
    assert column(part, "seeds")["UKGE"] == "0 of 3"
    assert column(part, "MRR here")["UKGE"] == "failed"
    assert "RotatE, fb15k-237 0.3, seed 1 failed: the GPU is full." in table.blocks[0].notes


def test_results_of_other_plans_are_left_out() -> None:
    plan, other = sample_plan(), sample_plan(rates=[0.7])
    results, costs = lines([*plan.cells(), *other.cells()])
    assert make_table(plan, results, costs) == full(plan)


def test_every_cell_has_its_command() -> None:
    plan = sample_plan()
    for table in (full(plan), make_table(plan, {}, {})):
        block = only_block(table)
        wanted = {f"npugraph bench run sample --only {cell.key}" for cell in plan.cells()}
        assert {line for _, line in block.commands} == wanted
        for text in (to_markdown(table), to_latex(table), to_html(table)):
            assert all(line in text for line in wanted)


# --- notes


def test_impossible_entries_are_marked_and_explained() -> None:
    table = full(sample_plan(graphs=["wn18"], rates=[0.7]))
    block = only_block(table)
    cells = {line.name: line.items for g in block.parts[0].groups for line in g.lines}
    assert any(item.impossible for item in cells["UKGE"])
    assert not any(item.impossible for item in cells["RotatE"])
    assert (
        "† UKGE, paper: this entry cannot be; MRR = 0.099 is below the least its hits allow, 0.131."
        in block.notes
    )
    assert "| 0.099 † |" in to_markdown(table)
    assert r"0.099$^\dagger$" in to_latex(table)
    assert "<sup" in to_html(table)


def test_another_graph_is_said_to_be_another_graph() -> None:
    block = only_block(full(sample_plan(graphs=["twitter-ego"], hits=[30, 50, 100])))
    assert [c.title for c in block.parts[0].columns][:4] == [
        "seeds", "MRR here", "MRR paper", "H@100 here"
    ]  # fmt: skip
    assert column(block.parts[0], "H@100 paper")["RotatE"] == "0.1115"
    assert block.title.startswith("Twitter-ego, two relations (another graph than the paper's), ")
    assert any("twitter-ego is another graph than the paper's Twitter" in n for n in block.notes)


def test_the_plans_notes_and_the_machines_are_printed() -> None:
    notes = only_block(full(sample_plan())).notes
    assert "nPUGraph: 20 epochs; published: 200." in notes
    assert any(f"{MACHINE} (12)" in note for note in notes)


def test_the_notes_say_that_other_work_shared_the_machine() -> None:
    plan = sample_plan()
    results, costs = lines(plan.cells())
    first = plan.cells()[0].key
    costs = {**costs, first: {**costs[first], "shared": True}}
    notes = only_block(make_table(plan, results, costs)).notes
    assert any(f"{MACHINE} (11); {MACHINE}, shared with other work (1)" in note for note in notes)


# --- sweeps


def test_seeds_of_different_sources_are_marked_and_named() -> None:
    plan = sample_plan()
    results, costs = lines(plan.cells())
    first, second, *_ = plan.cells()
    alike = {key: {**line, "source": "aaa"} for key, line in results.items()}
    block = only_block(make_table(plan, alike, costs))
    assert "Numeric sources: aaa." in block.notes
    assert column(block.parts[0], "seeds")["ComplEx-N3"] == "3"
    mixed = {**alike, first.key: results[first.key], second.key: {**results[second.key]}}
    mixed[second.key]["source"] = "bbb"
    block = only_block(make_table(plan, mixed, costs))
    assert column(block.parts[0], "seeds")["ComplEx-N3"] == "3 ‡"
    assert column(block.parts[0], "seeds")["RotatE"] == "3"
    assert (
        "‡ ComplEx-N3: the mean mixes unrecorded (1 cell), bbb (1 cell), "
        "aaa (1 cell)." in block.notes
    )
    assert any(
        note.startswith("Numeric sources: not recorded")
        for note in only_block(make_table(plan, results, costs)).notes
    )


def test_a_sweep_is_a_grid_of_its_values() -> None:
    plan = sweep_plan("negatives", [10, 50])
    main, sweep = full(plan).blocks
    assert sweep.title.startswith("nPUGraph: negatives varied on FB15k-237, rate 0.3")
    part = sweep.parts[0]
    assert part.first == "negatives"
    assert list(column(part, "MRR perturbed")) == ["10", "50"]
    # 50 is the default: the same cells as the system's own.
    assert {line for _, line in main.commands} < {line for _, line in sweep.commands}
    assert float(column(part, "training, s")["10"]) < float(column(part, "training, s")["50"])


# --- the three formats


def test_markdown_has_as_many_cells_in_each_line_of_a_grid() -> None:
    grid: list[str] = []
    for text in [*to_markdown(full(sample_plan())).splitlines(), ""]:
        if text.startswith("|"):
            grid.append(text)
        elif grid:
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in grid}) == 1
            grid = []


def test_latex_is_balanced_and_escaped() -> None:
    systems = [{"label": "A_b & 5% {x}", "recipe": "rotate", "note": "costs $3 #1 ~ ^ \\"}]
    text = to_latex(full(sample_plan(systems=systems)))
    assert r"A\_b \& 5\% \{x\} & 3 &" in text
    assert r"costs \$3 \#1 \textasciitilde{} \textasciicircum{} \textbackslash{}" in text
    body = re.sub(r"(?m)(?<!\\)%.*$", "", text).replace(r"\{", "").replace(r"\}", "")
    assert body.count("{") == body.count("}")
    assert body.count(r"\begin{") == body.count(r"\end{")
    for table in re.findall(r"\\begin\{tabular\}\{(l\w+)\}(.*?)\\end\{tabular\}", body, re.S):
        for row in table[1].split(r"\\"):
            spans = sum(int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", row))
            if "&" in row:
                assert len(re.split(r"(?<!\\)&", row)) + spans == len(table[0])


class _Tags(HTMLParser):
    """Checks that tags close, and collects text and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_no_other_file() -> None:
    parser = _Tags()
    parser.feed(to_html(full(sample_plan(graphs=["fb15k-237", "wn18"]))))
    assert parser.open == []
    assert all(link.startswith("#") for link in parser.links)


def test_labels_cannot_break_out_of_the_page() -> None:
    systems = [{"label": "<script>alert(1)</script>", "recipe": "rotate", "note": "<b>x"}]
    page = to_html(full(sample_plan(systems=systems)))
    assert "<script>" not in page
    assert "<b>" not in page


def test_the_page_fits_a_phone_in_light_and_dark(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "table.html"
    path.write_text(to_html(full(sample_plan(graphs=["fb15k-237", "wn18"]))), encoding="utf-8")
    colours = set()
    for scheme in ("light", "dark"):
        context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        problems: list[str] = []
        page.on("console", lambda message, seen=problems: seen.append(message.text))
        page.goto(path.as_uri())
        # The grids scroll by themselves; the page does not.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(
            "[...document.querySelectorAll('.grid .system th')].every((e) => e.offsetWidth > 70)"
        )
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert problems == []
        context.close()
    assert len(colours) == 2


def test_a_cell_of_several_seeds_is_one_row(tmp_path: Path) -> None:
    plan = sample_plan(graphs=["fb15k-237", "wn18"], rates=[0.1, 0.5])
    table = full(plan)
    assert [block.title for block in table.blocks] == [
        "FB15k-237, rate 0.1, random noise",
        "FB15k-237, rate 0.5, random noise",
        "WN18, rate 0.1, random noise",
        "WN18, rate 0.5, random noise",
    ]
    count = sum(len(block.commands) for block in table.blocks)
    assert count == len(plan.cells()) == 4 * 4 * 3
    assert isinstance(plan.cells()[0], Cell)
