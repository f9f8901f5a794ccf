"""Commands that look for wrong and missing facts: audit, explain."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npugraph.cli.audit_options import (
    AlphaOption,
    AnswersOption,
    AuditSeedOption,
    AuditSetOption,
    BetaOption,
    BudgetOption,
    ClusterOption,
    DeviceOption,
    EvidenceOption,
    FoldsOption,
    MissingOption,
    OutOption,
    PrecisionOption,
    ProtectOption,
    RecipeOption,
    ShowOption,
    SinceOption,
    SourceOption,
    ViewsOption,
    WorkersOption,
    WorkOption,
)
from npugraph.cli.check import RulesOption, ShapesOption, TypesOption
from npugraph.cli.common import (
    ColumnsOption,
    DelimiterOption,
    GraphArgument,
    HeaderOption,
    JsonOption,
    SpillOption,
    TrustOption,
    bar,
    emit,
    load_graph,
    say,
    table,
)
from npugraph.cli.output import (
    OverwriteOption,
    check_space,
    clear_folder,
    made_in,
    stoppable,
)
from npugraph.errors import NothingAddedError, SettingsError

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor

    from npugraph.auditing import Audit, AuditSettings, Stage
    from npugraph.data.perturb import Truth
    from npugraph.graph import KnowledgeGraph


def audit(
    graph: GraphArgument = None,
    out: OutOption = None,
    since: SinceOption = None,
    recipe: RecipeOption = None,
    folds: FoldsOption = None,
    views: ViewsOption = None,
    budget: BudgetOption = None,
    target_precision: PrecisionOption = None,
    missing: MissingOption = None,
    protect: ProtectOption = None,
    answers: AnswersOption = None,
    types: TypesOption = None,
    rules: RulesOption = None,
    shapes: ShapesOption = None,
    evidence: EvidenceOption = None,
    source: SourceOption = None,
    beta: BetaOption = None,
    alpha: AlphaOption = None,
    assignments: AuditSetOption = None,
    device: DeviceOption = None,
    seed: AuditSeedOption = None,
    cluster: ClusterOption = None,
    workers: WorkersOption = None,
    work: WorkOption = None,
    overwrite: OverwriteOption = False,
    show_settings: ShowOption = False,
    header: HeaderOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    spill: SpillOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the facts of a graph that are probably wrong, and those that are probably missing.

    Every fact is judged by a system that never saw it. The input is not changed. Without GRAPH
    some wrong facts are planted in the bundled graph, and the end says how many were found.
    An interrupted audit goes on where it stopped when the same command is given again.
    With --since what is not given is as in the earlier audit, and only what is new is listed.
    Facts that a label (0, 1) or --answers calls wrong are not trained on, and right ones never
    suspected; 20 answers recalibrate probabilities, 20 random ones tell the share of wrong facts.

    Example: npugraph audit facts.tsv --out audit --budget 200
    """
    given = {
        "recipe": recipe,
        "folds": folds,
        "views": views,
        "budget": budget,
        "target_precision": target_precision,
        "missing": missing,
        "evidence": None if evidence is None else ",".join(evidence),
        "source": source,
        "beta": beta,
        "alpha": alpha,
        "device": device,
        "seed": seed,
    }
    from npugraph.auditing.tasks import check_tasks

    earlier = None if since is None else _earlier(since)
    settings, changes = _settings(given, assignments or [], earlier)
    if show_settings:
        _show_settings(settings, as_json)
        return
    reading = (header, columns, delimiter, settings.columns, spill)
    with made_in(out, work, "audit", overwrite) as folder:
        if earlier is not None and folder.resolve() == earlier.resolve():
            raise SettingsError(f"--out {out} is the earlier audit itself; take another folder.")
        check_tasks(cluster, workers)
        truth: Truth | None = None
        more = "The same command goes on from there."
        with stoppable(folder, more, lambda: _has_kept(folder), "audit"):
            if graph is None:
                whole, truth = _planted(settings.seed)
            else:
                whole = load_graph(graph, *reading)
            guarded = None if protect is None else _read_facts(whole, protect)
            told = {"types": types, "rules": rules, "shapes": shapes}
            known = {"protected": guarded, "answers": answers, "constraints": told}
            by = {"since": earlier, "cluster": cluster, "workers": workers}
            try:
                found = _run(whole, settings, changes, {**known, **by}, folder, overwrite)
            except NothingAddedError as nothing:
                _show_nothing(str(nothing), since, as_json)
                return
            result = _write(found, truth, folder) | {"out": out}
    emit("audit", result, as_json, lambda: _show(found, result, str(out)))


def audit_first(graph: str, out: Path) -> None:
    """Audit a graph into a folder as the command does without options, and print no result."""
    settings, changes = _settings({"recipe": None}, [])
    with stoppable(out, "The same command goes on from there.", lambda: _has_kept(out), "audit"):
        whole = load_graph(graph, None, None, None, settings.columns)
        _write(_run(whole, settings, changes, {}, out, overwrite=False), None, out)


def _settings(
    given: dict[str, Any], assignments: list[str], earlier: Path | None = None
) -> tuple[AuditSettings, dict[str, str]]:
    """Make the settings of the audit and the changes of the recipe; options win over --set.

    What is given nowhere is as in an ``earlier`` audit, or as by default. What is wrong fails
    here, before anything is read.
    """
    from npugraph.auditing import AuditSettings
    from npugraph.auditing.settings import divide_settings
    from npugraph.settings import make_settings, parse_assignments

    values = parse_assignments(assignments)
    before: dict[str, Any] = {}
    if earlier is not None:
        from npugraph.auditing.earlier import Earlier

        before = Earlier.open(earlier).asked
    usual = before.get("recipe", AuditSettings.recipe)
    recipe = given["recipe"] or values.pop("recipe", usual)
    asked, changes = divide_settings(recipe, values)
    asked |= {name: value for name, value in given.items() if value is not None}
    return make_settings(AuditSettings, {**before, **asked, "recipe": recipe}), changes


def _earlier(since: str) -> Path:
    """Return the folder of an earlier audit, copied here where it is elsewhere."""
    from npugraph.data.io import local_copy

    return local_copy(since)


def _show_nothing(sentence: str, since: str | None, as_json: bool) -> None:
    """Say that there is nothing to judge."""
    record = {"since": since, "added": 0, "changed": 0, "notes": [sentence]}
    emit("audit.nothing", record, as_json, lambda: typer.echo(sentence))


def _show_settings(settings: AuditSettings, as_json: bool) -> None:
    """Print the settings of the audit and what was tuned."""
    from npugraph.report import settings_rows

    rows = [row for row in settings_rows(settings) if row.name != "thresholds"]
    tuned = settings_rows(settings.thresholds)

    def show() -> None:
        columns = ("name", "value", "help")
        for title, part in (("Settings of the audit", rows), ("What was tuned", tuned)):
            table(title, columns, [(row.name, row.value, row.help) for row in part])
        typer.echo(f"Those of the recipe: npugraph recipes show {settings.recipe}")

    record = {
        "settings": settings.asked(),
        "thresholds": dataclasses.asdict(settings.thresholds),
    }
    emit("audit.settings", record, as_json, show)


def _run(
    graph: KnowledgeGraph,
    settings: AuditSettings,
    changes: dict[str, str],
    known: dict[str, Any],
    out: Path,
    overwrite: bool,
) -> Audit:
    """Say what is about to be done, and do it; ``known``: further arguments of the audit."""
    from npugraph.auditing import audit as run

    with _stages() as show:

        def stage(name: str, progress: dict[str, Any]) -> None:
            if name == "plan":
                say(progress["cost"].sentence())
                check_space(out, progress["cost"].disk)
                if overwrite:
                    clear_folder(out, "audit")
            show(name, progress)

        return run(graph, settings, changes, **known, out=out, stage=stage)


def _has_kept(out: Path) -> bool:
    """Tell whether an audit that was stopped has anything to go on from."""
    of_what = ("trials", "folds", "pairs", "path")
    return any(any(out.glob(f"{of}/*/last.safetensors")) for of in of_what)


def _write(found: Audit, truth: Truth | None, out: Path) -> dict[str, Any]:
    """Write the audit's files; return its figures, with what was planted where that is known."""
    from npugraph.auditing import write_audit
    from npugraph.auditing.page import planted_check

    # Only now is the truth looked at.
    planted = None if truth is None else truth.planted
    result = write_audit(found, out, planted=planted)
    if planted is not None:
        result["planted"] = dataclasses.asdict(planted_check(found, planted))
    return result


def _planted(seed: int) -> tuple[KnowledgeGraph, Truth]:
    """Return the bundled graph with wrong facts planted, and which they are."""
    from npugraph.data.demo import planted_world

    whole, truth = planted_world(seed)
    count = len(truth.planted)
    say(f"{count} wrong facts were planted in the bundled graph; the audit is not told.")
    return whole, truth


def _read_facts(graph: KnowledgeGraph, path: Path) -> Tensor:
    """Read the facts to protect; those that the graph does not hold are said and change nothing."""
    from npugraph.data.io import ReadOptions, read_table
    from npugraph.errors import DataError
    from npugraph.names import counted

    try:
        table = read_table(path, ReadOptions())[0]
    except DataError as error:  # it names the file
        raise DataError(f"--protect {error}") from None
    try:
        facts = graph.encode(table)
    except DataError as error:
        raise DataError(f"--protect {path}: {error}") from None
    absent = int((~graph.index().contains(facts)).sum())
    if absent:
        given, are = counted(len(facts), "fact"), "is" if absent == 1 else "are"
        say(f"note: {absent:,} of the {given} to protect {are} not in the graph.")
    return facts


@contextmanager
def _stages() -> Iterator[Stage]:
    """Show what an audit is doing on stderr, in hundredths of its trainings."""
    with bar("audit", 100) as advance:
        systems, begun, now, done = 1, 0, 0, 0
        view, epochs, shares = "", 1, dict[int, float]()

        def stage(name: str, progress: dict[str, Any]) -> None:
            nonlocal systems, begun, now, done, view, epochs, shares
            note, reached = name, done
            if name == "plan":
                systems = max(progress["cost"].systems, 1)
            elif name in ("choosing", "training"):
                # Those of this view come after all that were announced before.
                now, begun, shares = begun, begun + progress["systems"], {}
                view, epochs = progress.get("view", name), max(progress["epochs"], 1)
            elif name in ("epoch", "trained"):
                # A fold that stops early, or was there already, is done at once.
                share = 1.0 if name == "trained" else progress["epoch"] / epochs
                shares[progress["fold"]] = share
                reached = int(100 * (now + sum(shares.values())) / systems)
                note = f"{view} {progress['fold'] + 1}"
            advance(max(0, reached - done), note)
            done = max(done, reached)

        yield stage


def _show(found: Audit, result: dict[str, Any], out: str) -> None:
    typer.echo(f"Verdict: {result['verdict']}. {result['verdict_reason']}")
    typer.echo("")
    wrong = "Probably wrong" if result["expected_wrong"] is not None else "Most suspicious first"
    _show_facts(wrong, found, found.suspects, 15)
    _show_facts("Perhaps missing", found, found.missing, 10)
    for line in _lines(result):
        typer.echo(line)
    for line in (*result["verdict_helps"], *result["notes"], *result["warnings"]):
        typer.echo(f"note: {line}")
    typer.echo(f"All of it is in {out}; open {out.rstrip('/')}/report.html in a browser.")


def _show_facts(title: str, found: Audit, facts: pa.Table, count: int) -> None:
    """Print the first facts of a list, with their probabilities where these are told."""
    from npugraph.names import percent

    columns, names = ["head", "relation", "tail"], found.graph.readable
    first = facts.slice(0, count).to_pylist()
    rows = [[names(row[name]) for name in columns] for row in first]
    if any(row["probability"] is not None for row in first):
        columns += ["P(true)", "90% interval"]
        for shown, row in zip(rows, first, strict=True):
            told = row["probability"] is not None
            shown.append(percent(row["probability"]) if told else "not told")
            shown.append(f"{percent(row['low'])} to {percent(row['high'])}" if told else "")
    table(title, columns, rows)
    typer.echo("")


def _lines(result: dict[str, Any]) -> Iterator[str]:
    """Yield what was found, one sentence per line."""
    from npugraph.names import counted

    since = result.get("since")
    if result["wrong_share"] is not None:
        count = result["facts"] if since is None else since["added"] + since["changed"]
        facts = counted(count, "fact" if since is None else "new fact")
        yield (
            f"About {result['wrong_share']:.1%} of the {facts} are wrong (90% "
            f"interval {result['wrong_share_low']:.1%} to {result['wrong_share_high']:.1%})."
        )
    if result["wrong_end"] is not None:
        yield f"Most wrong facts seem to be wrong at the {result['wrong_end']}."
    suspects = counted(result["suspects"], "fact")
    yield f"suspects.tsv: {suspects} to review{_promised(result, 'wrong')}."
    if any(result["corrections"].values()):
        new, stored = result["corrections"]["new"], result["corrections"]["stored"]
        have = "has" if new + stored == 1 else "have"
        yield (
            f"{new + stored:,} of them {have} a correction: {new:,} another fact to put there, "
            f"{stored:,} a fact that is stored already."
        )
    if result["missing_share"] is not None:
        yield (
            f"About {result['missing_share']:.0%} of the true facts of these kinds are not stored "
            f"(90% interval {result['missing_share_low']:.0%} to "
            f"{result['missing_share_high']:.0%})."
        )
    missing = counted(result["missing"], "fact that is", "facts that are")
    yield f"missing.tsv: {missing} not stored{_promised(result, 'true')}."
    if issues := sum(result["issues"].values()):
        yield f"issues.tsv: {counted(issues, 'issue')}, found without a model."
    yield (
        f"quarantine.tsv: the {counted(result['quarantined'], 'fact')} that {result['cleaned']} "
        "leaves out; npugraph apply and revert take patch.json."
    )
    if "planted" in result:
        check = result["planted"]
        yield (
            f"{check['found']} of the {check['planted']} planted facts are among the "
            f"{counted(check['listed'], 'suspect')}."
        )


def _promised(result: dict[str, Any], what: str) -> str:
    """Say how many facts of a list should be wrong, or true, where that is promised."""
    names = (f"expected_{what}", f"expected_{what}_low", f"expected_{what}_high")
    value, low, high = (result[name] for name in names)
    if value is None:
        return f"; how many of them are {what} cannot be told"
    return f", of which about {value:,.0f} should be {what} ({low:,.0f} to {high:,.0f})"


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder made by audit or fit.")],
    head: Annotated[str, typer.Argument(help="Name of the head.")],
    relation: Annotated[str, typer.Argument(help="Name of the relation.")],
    tail: Annotated[str, typer.Argument(help="Name of the tail.")],
    top: Annotated[int, typer.Option(help="At most so many of each kind.", min=1)] = 5,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "auto",
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the evidence for and against one fact, stored or not.

    With the folder of an audit, a stored fact is ranked by the system that never saw it, and the
    probability is that of the audit. With a run folder, it is that of the recipe, where it has one.
    A recipe that judges by paths names the strongest ones behind the fact, its own edges hidden.

    Example: npugraph explain audit Austria borders Japan
    """
    from npugraph.asking import explain as find

    found = find(run, head, relation, tail, top=top, device=device, trust=trust)
    emit("explain", found.to_dict(), as_json, lambda: typer.echo(found.to_text()))
