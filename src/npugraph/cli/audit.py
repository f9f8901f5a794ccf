"""Commands that look for wrong and missing facts: audit, explain."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npugraph.cli.common import (
    ColumnsOption,
    DelimiterOption,
    GraphArgument,
    HeaderOption,
    JsonOption,
    SeedOption,
    SetOption,
    bar,
    emit,
    load_graph,
    say,
    table,
)
from npugraph.cli.output import (
    OverwriteOption,
    check_folder,
    check_ours,
    check_space,
    clear_folder,
    stoppable,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor

    from npugraph.auditing import Audit, AuditSettings, Stage
    from npugraph.data.perturb import Truth
    from npugraph.graph import KnowledgeGraph
    from npugraph.settings import TrainSettings


PrecisionOption = Annotated[
    float, typer.Option(help="Share of wrong facts wanted in the quarantine.", min=0, max=1)
]
ProtectOption = Annotated[
    Path | None, typer.Option(help="A file of facts that are right; never suspected.")
]
BetaOption = Annotated[
    float | None, typer.Option(help="Share of true facts, if you know it.", show_default=False)
]


def audit(
    graph: GraphArgument = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write.")] = None,
    recipe: Annotated[str, typer.Option(help="The system that judges the facts.")] = "complex-n3",
    folds: Annotated[int, typer.Option(help="Systems to train.", min=2)] = 5,
    budget: Annotated[int, typer.Option(help="Facts you are willing to review.", min=1)] = 100,
    target_precision: PrecisionOption = 0.9,
    protect: ProtectOption = None,
    beta: BetaOption = None,
    assignments: SetOption = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...; auto takes a GPU.")] = "auto",
    seed: SeedOption = 0,
    overwrite: OverwriteOption = False,
    header: HeaderOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the facts of a graph that are probably wrong, and those that are probably missing.

    Every fact is judged by a system that never saw it. The input is not changed. Without GRAPH
    some wrong facts are planted in the bundled graph, and the end says how many were found.
    An interrupted audit goes on where it stopped when the same command is given again.

    Example: npugraph audit facts.tsv --out audit --budget 200
    """
    from npugraph.errors import SettingsError

    if out is None:
        raise SettingsError("Say where to write the audit: --out DIR.")
    check_folder(out)
    if overwrite:
        check_ours(out, "audit")
    from npugraph.settings import parse_assignments

    given = {
        "recipe": recipe,
        "folds": folds,
        "budget": budget,
        "target_precision": target_precision,
        "beta": beta,
        "device": device,
        "seed": seed,
    }
    settings, changes = _settings(given, parse_assignments(assignments or []))
    truth: Truth | None = None
    with stoppable(out, "The same command goes on from there.", lambda: _has_kept(out), "audit"):
        if graph is None:
            whole, truth = _planted(seed)
        else:
            whole = load_graph(graph, header, columns, delimiter)
        guarded = None if protect is None else _read_facts(whole, protect)
        found = _run(whole, settings, changes, guarded, out, overwrite)
        result = _write(found, truth, out)
    emit(result, as_json, lambda: _show(found, result, out))


def _run(
    graph: KnowledgeGraph,
    settings: AuditSettings,
    changes: dict[str, str],
    protected: Tensor | None,
    out: Path,
    overwrite: bool,
) -> Audit:
    """Say what is about to be done, and do it."""
    from npugraph.auditing import audit as run
    from npugraph.auditing import make_plan, suited_settings

    training = suited_settings(graph, settings, changes)
    say(make_plan(graph, settings, training, changes=changes).sentence())
    check_space(out, _bytes_on_disk(graph, settings, training))
    if overwrite:
        clear_folder(out, "audit")
    with _stages(settings) as stage:
        return run(graph, settings, changes, protected=protected, out=out, stage=stage)


def _has_kept(out: Path) -> bool:
    """Tell whether an audit that was stopped has anything to go on from."""
    return any(out.glob("folds/*/last.safetensors"))


def _bytes_on_disk(graph: KnowledgeGraph, settings: AuditSettings, training: TrainSettings) -> int:
    """Estimate what an audit writes: one run per fold, and its lists."""
    weights = 8 * getattr(training, "d", 128) * (graph.num_entities + graph.num_relations)
    facts = graph.to_table().nbytes + graph.entities.labels.nbytes
    return int(settings.folds * (4 * weights + facts) + 3 * weights + 5 * facts + 2**21)


def _write(found: Audit, truth: Truth | None, out: Path) -> dict[str, Any]:
    """Write the audit's files; return its figures, with what was planted where that is known."""
    from npugraph.auditing import write_audit

    known = {} if truth is None else _check(found, truth)
    result = write_audit(found, out, **known)
    if truth is not None:
        result["planted"] = dataclasses.asdict(known["planted"])
    return {**result, "out": str(out)}


def _settings(
    given: dict[str, Any], assignments: dict[str, str]
) -> tuple[AuditSettings, dict[str, str]]:
    """Cut --set into settings of the audit and settings of the recipe."""
    import typing

    from npugraph.auditing import AuditSettings
    from npugraph.errors import SettingsError, nearest
    from npugraph.recipes import get_recipe
    from npugraph.settings import make_settings, parse_value

    hints = typing.get_type_hints(AuditSettings)
    changes = {name: value for name, value in assignments.items() if name not in hints}
    for name in assignments.keys() - changes.keys():
        given[name] = parse_value(name, assignments[name], hints[name])
    # What is wrong fails here, before anything is read.
    settings = AuditSettings(**given)
    kind = get_recipe(settings.recipe).settings
    names = [*hints, *(field.name for field in dataclasses.fields(kind))]
    for name in changes:
        if name not in names:
            hint = nearest(name, names) or f" Known: {', '.join(names)}."
            raise SettingsError(f"There is no setting {name!r}.{hint}")
    make_settings(kind, changes)
    return settings, changes


def _planted(seed: int) -> tuple[KnowledgeGraph, Truth]:
    """Return the bundled graph with wrong facts planted, and which they are."""
    from npugraph.data.datasets import load
    from npugraph.data.perturb import PerturbSettings, perturb

    half = PerturbSettings(rate=0.025, added_share=1.0, noise="one-sided", seed=seed)
    splits, first = perturb(load("world").split(), half)
    splits, second = perturb(splits, dataclasses.replace(half, noise="typed", seed=seed + 1))
    import torch

    planted = torch.cat([first.planted, second.planted])
    say(f"{len(planted)} wrong facts were planted in the bundled graph; the audit is not told.")
    splits = dataclasses.replace(splits, name="world with planted errors")
    return splits.whole(), dataclasses.replace(first, planted=planted)


def _read_facts(graph: KnowledgeGraph, path: Path) -> Tensor:
    """Read the facts to protect; those that the graph does not hold are said and change nothing."""
    from npugraph.data.io import ReadOptions, read_table
    from npugraph.errors import DataError

    try:
        facts = graph.encode(read_table(path, ReadOptions())[0])
    except DataError as error:
        raise DataError(f"--protect {path}: {error}") from None
    absent = int((~graph.index().contains(facts)).sum())
    if absent:
        say(f"note: {absent:,} of the {len(facts):,} facts to protect are not in the graph.")
    return facts


@contextmanager
def _stages(settings: AuditSettings) -> Iterator[Stage]:
    """Show what an audit is doing on stderr."""
    total = 100 * settings.folds
    with bar("audit", total) as advance:
        epochs, done = 0, 0

        def stage(name: str, progress: dict[str, Any]) -> None:
            nonlocal epochs, done
            if name == "training":
                epochs = progress["epochs"] // settings.folds
            elif name == "epoch":
                # A fold that stops early, or was there already, moves on at once.
                reached = 100 * progress["fold"] + 100 * progress["epoch"] // max(epochs, 1)
                advance(max(0, reached - done), f"fold {progress['fold'] + 1}")
                done = max(done, reached)
            else:
                advance(0, name)

        yield stage


def _check(found: Audit, truth: Truth) -> dict[str, Any]:
    """Compare the review list with the planted facts: only now is the truth looked at."""
    from npugraph.report import PlantedCheck

    labels = found.graph.with_facts(truth.planted).to_table()
    columns = ("head", "relation", "tail")
    marks = frozenset(zip(*(labels[name].to_pylist() for name in columns), strict=True))
    listed = zip(*(found.suspects[name].to_pylist() for name in columns), strict=True)
    hits = sum(fact in marks for fact in listed)
    return {"planted": PlantedCheck(len(marks), hits, len(found.suspects)), "marks": marks}


def _show(found: Audit, result: dict[str, Any], out: Path) -> None:
    columns = ("head", "relation", "tail", "P(true)", "90% interval")
    table("Probably wrong", columns, _listed(found.suspects, 15))
    typer.echo("")
    table("Perhaps missing", columns, _listed(found.missing, 10))
    typer.echo("")
    for line in _lines(result):
        typer.echo(line)
    for warning in result["warnings"]:
        typer.echo(f"note: {warning}")
    typer.echo(f"All of it is in {out}; open {out / 'report.html'} in a browser.")


def _listed(facts: pa.Table, count: int) -> list[list[str]]:
    from npugraph.report.formats import percent

    return [
        [row["head"], row["relation"], row["tail"], percent(row["probability"])]
        + [f"{percent(row['low'])} to {percent(row['high'])}"]
        for row in facts.slice(0, count).to_pylist()
    ]


def _lines(result: dict[str, Any]) -> Iterator[str]:
    """Yield what was found, a sentence a line."""
    if result["identifiable"]:
        yield (
            f"About {result['wrong_share']:.1%} of the {result['facts']:,} facts are wrong (90% "
            f"interval {result['wrong_share_low']:.1%} to {result['wrong_share_high']:.1%})."
        )
        if result["wrong_end"] is not None:
            yield f"Most of them seem to be wrong at the {result['wrong_end']}."
    yield (
        f"suspects.tsv: {result['suspects']:,} facts to review, of which about "
        f"{result['expected_wrong']:,.0f} should be wrong ({result['expected_wrong_low']:,.0f} to "
        f"{result['expected_wrong_high']:,.0f})."
    )
    if result["missing_share"] is not None:
        yield (
            f"About {result['missing_share']:.0%} of the true facts of these kinds are not stored "
            f"(90% interval {result['missing_share_low']:.0%} to "
            f"{result['missing_share_high']:.0%})."
        )
    yield (
        f"missing.tsv: {result['missing']:,} facts that are not stored, of which about "
        f"{result['expected_true']:,.0f} should be true ({result['expected_true_low']:,.0f} to "
        f"{result['expected_true_high']:,.0f})."
    )
    yield (
        f"quarantine.tsv: the {result['quarantined']:,} facts that cleaned.tsv leaves out; "
        "patch.json says how to undo that."
    )
    if "planted" in result:
        check = result["planted"]
        yield (
            f"{check['found']} of the {check['planted']} planted facts are among the "
            f"{check['listed']} suspects."
        )


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder made by audit or fit.")],
    head: Annotated[str, typer.Argument(help="Name of the head.")],
    relation: Annotated[str, typer.Argument(help="Name of the relation.")],
    tail: Annotated[str, typer.Argument(help="Name of the tail.")],
    top: Annotated[int, typer.Option(help="At most so many of each kind.", min=1)] = 5,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "auto",
    as_json: JsonOption = False,
) -> None:
    """Show the evidence for and against one fact, stored or not.

    With the folder of an audit, a stored fact is ranked by the system that never saw it.

    Example: npugraph explain audit Austria borders Japan
    """
    import torch

    from npugraph.explaining import explain as find
    from npugraph.fitting import load

    folder, whole = _folder_of(run, (head, relation, tail))
    fitted = load(folder, device)
    graph = fitted.splits.train
    if whole:
        graph = graph.with_facts(fitted.splits.all_facts())
    ids = [graph.entities.id(head), graph.relations.id(relation), graph.entities.id(tail)]
    where = fitted.system.device
    found = find(graph, torch.tensor(ids), score_all=fitted.system.score_all, top=top, device=where)
    emit(found.to_dict(), as_json, lambda: typer.echo(found.to_text()))


def _folder_of(run: Path, fact: tuple[str, str, str]) -> tuple[Path, bool]:
    """Return the run folder that should judge a fact, and whether all its parts are evidence."""
    import pyarrow.compute as pc
    import pyarrow.parquet

    if not (run / "audit.json").is_file():
        return run, False
    stored = pyarrow.parquet.read_table(run / "posterior.parquet")
    same = pc.and_kleene(
        pc.and_kleene(pc.equal(stored["head"], fact[0]), pc.equal(stored["relation"], fact[1])),
        pc.equal(stored["tail"], fact[2]),
    )
    rows = stored.filter(same)
    fold = rows["fold"][0].as_py() if len(rows) else 1
    return run / "folds" / f"fold-{fold}", True
