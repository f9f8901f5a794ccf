"""The sentences below a table: the test and its weakness, the paper's slips, failures, machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npugraph.bench.paper import printed
from npugraph.bench.sources import named
from npugraph.bench.summary import BlockComparison, Row, machines
from npugraph.significance import smallest_significant

# Marks a row whose seeds ran with different numeric sources.
MIXED = "‡"
UNRECORDED = "Numeric sources: not recorded; these cells ran before lines had a hash of them."
# From this many pairs on we do not call the test weak.
ENOUGH_PAIRS = 10


def block_notes(
    compared: Sequence[Row], comparisons: Mapping[str, BlockComparison | None]
) -> tuple[str, ...]:
    """Return the sentences below one graph at one rate."""
    return (
        *_about_seeds(compared),
        *_about_the_test(comparisons),
        *_about_the_paper(compared),
        *_about_the_grids(compared),
        *_about_sources(compared),
        *_about_systems(compared),
    )


def sweep_notes(swept: Sequence[Row]) -> tuple[str, ...]:
    """Return the sentences below a sweep."""
    return (
        *_about_seeds(swept),
        "The paper shows this as a figure only and prints no numbers of it.",
        *_about_sources(swept),
        *_about_systems(swept),
    )


def _about_seeds(compared: Sequence[Row]) -> list[str]:
    planned = {len(row.cells) for row in compared}
    if planned == {1}:
        return ["One seed: there is no standard deviation and no test."]
    return ["Mean ± standard deviation (divisor n - 1) over the seeds; best mean in bold."]


def _about_the_test(comparisons: Mapping[str, BlockComparison | None]) -> list[str]:
    """Say which test, over how many pairs, against which system, and how weak it is."""
    said: dict[str, list[str]] = {}
    most = 0
    for name, comparison in comparisons.items():
        tests = [test for test in comparison.tests if test is not None] if comparison else []
        if comparison is not None and tests:
            pairs = sorted({test.pairs for test in tests})
            most = max(most, pairs[-1])
            sizes = " or ".join(str(count) for count in pairs)
            freedom = " or ".join(str(count - 1) for count in pairs)
            sentence = (
                f"two-sided paired t test of MRR, {comparison.best.first.label} against each "
                f"other system over the seeds both have (n = {sizes} pairs, df = {freedom}), "
                f"Holm's correction for {len(tests)} comparisons."
            )
            said.setdefault(sentence, []).append(name)
    # Filters that agree in all of this share the sentence.
    sentences = [f"p ({' and '.join(names)} filter): {text}" for text, names in said.items()]
    if 0 < most < ENOUGH_PAIRS:
        needed = smallest_significant(most, printed.LEVEL)
        sentences.append(
            f"With {most} pairs the test is weak: p < {printed.LEVEL:g} needs t beyond "
            f"{needed:.1f} even before the correction. A large p does not say that two systems "
            "are equal, and the best one was chosen by the same figures."
        )
    return sentences


def _about_the_paper(compared: Sequence[Row]) -> list[str]:
    """Say where the paper's figures are from, and which cannot be right."""
    cells = [row.first for row in compared]
    found = [(c.label, printed.beside(c.graph, c.rate, c.recipe)) for c in cells]
    cited = [(label, entry) for label, entry in found if entry is not None]
    if not cited:
        return []
    numbers = sorted({entry.table for _, entry in cited})
    tables = " and ".join(f"Table {number}" for number in numbers)
    sentences = [
        f"paper: its {tables}, the mean of {printed.RUNS} runs; it gives no deviation. Its filter "
        "is not stated; we take it to be the one we call perturbed."
    ]
    if cells[0].graph in printed.STAND_INS:
        sentences.append(another_graph(cells[0].graph))
    for label, entry in cited:
        reasons = printed.impossible(entry)
        if reasons:
            sentences.append(f"† {label}, paper: this entry cannot be; {' and '.join(reasons)}.")
    return sentences


def another_graph(graph: str) -> str:
    """Say that a graph of ours is not the paper's."""
    theirs = printed.STAND_INS[graph].capitalize()
    return (
        f"{graph} is another graph than the paper's {theirs}, which is not public: the figures "
        "stand side by side only to show the order of systems, not to be compared."
    )


def _about_the_grids(compared: Sequence[Row]) -> list[str]:
    sentences = []
    if compared[0].first.rate and any(row.done for row in compared):
        sentences.append(
            "Noise: how well planted facts are told from true ones among the training facts and "
            "among the held-out validation facts, by the system's probability where it has one, "
            "else by its score; AP is of the planted facts. ECE: of the probability."
        )
    where = machines(compared)
    if where:
        sentences.append(
            f"Seconds and memory, cells in brackets: {'; '.join(where)}. They compare only where "
            "the machine and the number of cells at once are the same, and not at all where other "
            "work shared the machine."
        )
    return sentences


def _about_sources(compared: Sequence[Row]) -> list[str]:
    """Say which numeric sources the rows had, and which rows mix several."""
    sources = [source for row in compared for source in row.sources]
    if not sources:
        return []
    if len(set(sources)) == 1:
        known = sources[0]
        return [f"Numeric sources: {known}."] if known else [UNRECORDED]
    sentences = [f"These rows ran with different numeric sources: {named(sources)}."]
    mixed = [row for row in compared if row.mixed]
    sentences += [f"{MIXED} {r.first.label}: the mean mixes {named(r.sources)}." for r in mixed]
    return sentences


def _about_systems(compared: Sequence[Row]) -> list[str]:
    """Return the plan's notes and the errors of failed cells."""
    notes = {row.first.label: row.first.note for row in compared if row.first.note}
    sentences = [f"{label}: {note.rstrip('.')}." for label, note in notes.items()]
    for row in compared:
        for cell in row.failed:
            sentences.append(f"{cell.title} failed: {row.error(cell).rstrip('.')}.")
    return sentences
