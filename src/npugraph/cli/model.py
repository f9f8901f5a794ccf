"""Commands about models: fit, evaluate, predict."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npugraph.cli.common import (
    ColumnsOption,
    DelimiterOption,
    GraphArgument,
    HeaderOption,
    JsonOption,
    SetOption,
    SpillOption,
    TrustOption,
    bar,
    emit,
    load_splits,
    megabytes,
    read_options,
    say,
    table,
)
from npugraph.cli.output import (
    OverwriteOption,
    check_file,
    check_folder,
    check_ours,
    check_space,
    clear_folder,
    stoppable,
)
from npugraph.cli.ranks import RanksOption, as_rank, must_start, start
from npugraph.names import shorten

if TYPE_CHECKING:
    from npugraph.fitting import Fitted
    from npugraph.graph import Splits
    from npugraph.peers import Peers, Share
    from npugraph.settings import TrainSettings
    from npugraph.training.batch_loss import Training
    from npugraph.training.memory import MemoryPlan

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder made by fit.")]
OtherGraphOption = Annotated[
    str | None,
    typer.Option(
        "--graph",
        help="Another graph with the same relations, new entities allowed: its facts are the "
        "evidence instead of the run's. For recipes without entity vectors (path).",
        show_default=False,
    ),
]
WithValidationOption = Annotated[
    bool,
    typer.Option(
        "--with-validation",
        help="The validation facts are evidence, too; nothing is trained on them. For recipes of "
        "paths.",
    ),
]
DeviceOption = Annotated[
    str, typer.Option(help="cpu, cuda, ...; auto takes a GPU if there is one.")
]


def fit(
    graph: GraphArgument = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to make.")] = None,
    recipe: Annotated[
        str, typer.Option(help="Which system to train: a name, or a .py file.")
    ] = "complex-n3",
    assignments: SetOption = None,
    settings_file: Annotated[
        Path | None, typer.Option("--settings", help="A JSON file of settings; --set wins.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Short for --set seed=N.", min=0)] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out, or start it.")
    ] = False,
    overwrite: OverwriteOption = False,
    ranks: RanksOption = 1,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print the recipe's settings and stop.")
    ] = False,
    header: HeaderOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    spill: SpillOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a system on a graph and keep its best epoch, by MRR on the validation facts.

    After Ctrl-C, --resume goes on from the last checkpoint, and the run ends exactly as if it had
    never been stopped. With --ranks the system is trained by several processes; when one dies, all
    end, and --resume goes on, with any number of ranks.

    Example: npugraph fit umls --recipe complex-n3 --out runs/umls --set d=128 --set epochs=60
    """
    if must_start(ranks) and not show_settings:
        start(ranks)
        return
    from npugraph.errors import SettingsError
    from npugraph.recipes import get_recipe
    from npugraph.settings import describe, make_settings, parse_assignments, read_settings

    chosen = get_recipe(recipe)
    if show_settings:
        rows = describe(chosen.settings)
        shown = ("name", "default", "type", "help")
        emit(
            "fit.settings",
            {"recipe": recipe, "settings": rows},
            as_json,
            lambda: table(recipe, shown, [[row[key] for key in shown] for row in rows]),
        )
        return
    values: dict[str, Any] = read_settings(settings_file) if settings_file else {}
    values |= parse_assignments(assignments or [])
    if seed is not None:
        values["seed"] = seed
    settings = make_settings(chosen.settings, values)
    if out is None:
        raise SettingsError("Say where to keep the run: --out RUN.")
    if resume and overwrite:
        raise SettingsError("Give --resume or --overwrite, not both.")
    with as_rank(settings.device) as peers, _run_folder(out, resume, overwrite, peers):
        splits = load_splits(graph, header, columns, delimiter, settings.seed, spill)
        result = _train(splits, recipe, settings, out, resume, overwrite, peers)
    if peers.rank == 0:
        emit("fit", result, as_json, lambda: _show_fit(result))


def _run_folder(
    out: Path, resume: bool, overwrite: bool, peers: Peers
) -> AbstractContextManager[None]:
    """Look at the place of a run before any work, and see to it when work stops; rank 0 does."""
    from npugraph.errors import RunError

    if peers.rank:
        return nullcontext()
    check_folder(out)
    if overwrite:
        check_ours(out, "run")
    elif (out / "settings.json").exists() and not resume:
        raise RunError(
            f"{out} already holds a run; continue it with --resume, replace it with --overwrite, "
            "or take another folder."
        )
    last = out / "last.safetensors"
    return stoppable(out, "Go on with the same command and --resume.", last.is_file, "run")


def _train(
    splits: Splits,
    recipe: str,
    settings: TrainSettings,
    out: Path,
    resume: bool,
    overwrite: bool,
    peers: Peers,
) -> dict[str, Any]:
    from npugraph import fitting as train
    from npugraph.ranking.evaluate import noise_judge
    from npugraph.training.memory import plan_memory

    splits = train.leave_out_wrong(splits)
    resume = peers.same(resume and (out / "settings.json").exists())

    advance: Callable[[int, str], None]
    done = 0

    def built(training: Training) -> None:
        nonlocal advance
        device = training.system.device
        plan = plan_memory(training, settings, len(splits.valid), device)
        steps = -(-training.num_items() // settings.batch_size)
        say(_plan(recipe, settings, str(device), steps, plan, training.system.share))
        if peers.rank == 0:
            whole = training.system.share.by_questions
            _make_room(out, splits, plan.weights * (1 if whole else peers.size), overwrite)
        # Not before: the bar would be drawn over what is said.
        advance = shown.enter_context(bar("training", settings.epochs))

    def report(record: dict[str, Any]) -> None:
        nonlocal done
        note = f"loss {record['loss']:.4f}"
        if record["progress_best_mrr"] >= 0:  # before the first validation there is none
            note += f", best valid MRR {record['progress_best_mrr']:.4f}"
        advance(record["epoch"] - done, note)
        done = record["epoch"]

    started = time.perf_counter()
    with ExitStack() as shown:
        fitted = train.fit(
            splits,
            recipe,
            settings,
            out,
            resume=resume,
            report=report,
            judge=noise_judge(splits),
            on_built=built,
            peers=peers,
        )
    return {
        "run": str(out),
        "recipe": recipe,
        "graph": splits.summary(),
        "ranks": peers.size,
        "epochs": fitted.progress.epoch,
        "best_epoch": fitted.progress.best_epoch,
        "valid_mrr": fitted.progress.best_mrr,
        "seconds": round(time.perf_counter() - started, 2),
    }


def _make_room(out: Path, splits: Splits, weights: int, overwrite: bool) -> None:
    """Refuse a disk that is too small, and clear what is to be replaced."""
    # The best weights; the last ones with two optimiser states, and those again beside them
    # while they are replaced; the labels and the facts.
    labels = splits.train.entities.labels.nbytes + splits.train.relations.labels.nbytes
    check_space(out, 7 * weights + labels + 25 * len(splits.all_facts()))
    if overwrite:
        clear_folder(out, "run")


def _plan(
    recipe: str, settings: TrainSettings, device: str, steps: int, plan: MemoryPlan, share: Share
) -> str:
    """Say what is about to be done and what memory it takes."""
    ranks, each, whole = "", "", "in all"
    if share.peers.size > 1:
        first, last = share.own()
        what = f"{last - first} of {share.dimensions} dimensions each"
        if share.by_questions:
            what = f"each asks 1/{share.peers.size} of the questions"
        ranks = f" in {share.peers.size} ranks, {what}"
        each = " per rank"
        # On GPUs a rank's memory is its own.
        whole = f"for the {plan.ranks} ranks here" if plan.ranks > 1 else "per rank"
    return (
        f"plan: {recipe} on {device}{ranks}, at most {settings.epochs} epochs of {steps} steps; "
        f"weights {megabytes(plan.weights)}{each}, about {megabytes(plan.total)} {whole}."
    )


def _show_fit(result: dict[str, Any]) -> None:
    rows = [[key, result[key]] for key in ("valid_mrr", "best_epoch", "epochs", "seconds")]
    table(f"{result['recipe']} on {result['graph']['name']}", ("", ""), rows)
    run = result["run"]
    say(f"Run folder: {run}. Next: npugraph evaluate {run}")


def evaluate(
    run: RunArgument,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="Known facts to leave out: clean (all true ones), perturbed (the files as "
            "given), raw (none) or a file. May be repeated. Default: clean.",
            show_default=False,
        ),
    ] = None,
    part: Annotated[str, typer.Option(help="Which facts to rank: test or valid.")] = "test",
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help="Also a table by relation or cardinality. May be repeated."),
    ] = None,
    memory: Annotated[
        int | None, typer.Option(help="MiB for the scores of a chunk.", min=1, show_default=False)
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            help="Rank among so many entities drawn at random instead of all; the figures are "
            "called so, and are no MRR.",
            min=1,
            show_default=False,
        ),
    ] = None,
    graph: OtherGraphOption = None,
    with_validation: WithValidationOption = False,
    device: DeviceOption = "auto",
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Rank the true head and tail of every test fact among all entities, filtered.

    Ranks are realistic (ties count half); optimistic and pessimistic stand beside them in --json.

    Example: npugraph evaluate runs/umls --filter clean --filter perturbed --by cardinality
    """
    from npugraph import asking
    from npugraph.fitting import load, on_graph
    from npugraph.ranking.evaluate import count_queries

    groups, names = by or [], filters or ["clean"]
    asking.check_asked(part, groups)
    fitted = load(run, device, trust=trust)
    if graph is not None:
        fitted = on_graph(fitted, graph)
    if candidates is not None:
        not_with = {"--with-validation": with_validation, "--by": bool(groups)}
        _evaluate_sampled(run, fitted, candidates, names, part, as_json, not_with)
        return
    queries = count_queries(fitted.splits, part)  # type: ignore[arg-type]  # checked above
    with bar("ranking", queries) as advance:
        result = asking.evaluate(
            fitted,
            names,
            part,  # type: ignore[arg-type]  # checked above
            by=groups,  # type: ignore[arg-type]  # checked above
            with_validation=with_validation,
            memory_budget=None if memory is None else memory * 2**20,
            progress=lambda done: advance(done, ""),
        )
    emit(
        "evaluate",
        {"run": str(run), **result},
        as_json,
        lambda: _show_metrics(result, names, groups),
    )


def _evaluate_sampled(
    run: Path,
    fitted: Fitted,
    candidates: int,
    names: list[str],
    part: str,
    as_json: bool,
    not_with: dict[str, bool],
) -> None:
    """Rank among sampled candidates, and say so; refuse options that need all entities."""
    from npugraph.errors import SettingsError
    from npugraph.ranking.sampled import evaluate_among_sampled

    for option, given in not_with.items():
        if given:
            raise SettingsError(f"{option} needs ranks among all entities; leave --candidates out.")
    result = evaluate_among_sampled(
        fitted,
        candidates,
        names,
        part,  # type: ignore[arg-type]  # checked by the caller
        seed=fitted.settings.seed,
    )

    def show() -> None:
        columns = list(result["filters"][names[0]])
        rows = [[name, *result["filters"][name].values()] for name in names]
        title = f"{result['graph']}, {result['facts']:,} {part} facts among {candidates:,} sampled "
        table(f"{title}candidates: higher than among all", ("filter", *columns), rows)

    emit("evaluate", {"run": str(run), **result}, as_json, show)


def _show_metrics(result: dict[str, Any], names: list[str], groups: list[str]) -> None:
    columns = ("mrr", "hits@1", "hits@3", "hits@10", "mean_rank", "amri", "count")
    rows = []
    for name in names:
        metrics = result["filters"][name]
        rows.append([name, "both", *(metrics[c] for c in columns)])
        rows += [[name, side, *(metrics[side][c] for c in columns)] for side in ("head", "tail")]
    title = f"{result['graph']}, {result['facts']:,} {result['part']} facts"
    if result.get("with_validation"):
        title += ", validation facts as evidence"
    table(title, ("filter", "side", *columns), rows)
    for group in groups:
        rows = [
            [name, label, *(metrics[c] for c in columns)]
            for name in names
            for label, metrics in result["filters"][name][f"by_{group}"].items()
        ]
        table(f"By {group}", ("filter", group, *columns), rows)


def predict(
    run: RunArgument,
    head: Annotated[str | None, typer.Option(help="The known head; asks for tails.")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation.")] = None,
    tail: Annotated[str | None, typer.Option(help="The known tail; asks for heads.")] = None,
    k: Annotated[int, typer.Option("-k", "--top", help="How many answers.", min=1)] = 10,
    only_new: Annotated[
        bool, typer.Option("--only-new", help="Leave out the answers that are known facts.")
    ] = False,
    with_validation: WithValidationOption = False,
    device: DeviceOption = "auto",
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Answer (head, relation, ?) or (?, relation, tail) with the most plausible entities.

    Example: npugraph predict runs/world --head France --relation borders -k 10
    """
    from npugraph.asking import predict as answer

    found = answer(
        run,
        head=head,
        relation=relation,
        tail=tail,
        k=k,
        only_new=only_new,
        with_validation=with_validation,
        device=device,
        trust=trust,
    )
    rows = found.to_pylist()
    side = "head" if head is None else "tail"
    query = {"head": head, "relation": relation, "tail": tail}

    def show() -> None:
        asked = ", ".join("?" if value is None else shorten(value) for value in query.values())
        shown = [
            [r["rank"], shorten(r["label"]), r["score"], "known" if r["known"] else "new"]
            for r in rows
        ]
        table(f"({asked})", ("rank", side, "score", ""), shown)

    emit("predict", {"run": str(run), "query": query, "predictions": rows}, as_json, show)


def score(
    run: RunArgument,
    facts: Annotated[
        str, typer.Argument(metavar="FACTS", help="A file of facts to score, or its address.")
    ],
    out: Annotated[Path, typer.Option(help="Where to write them: .tsv, .csv or .parquet.")],
    graph: OtherGraphOption = None,
    header: HeaderOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    device: DeviceOption = "auto",
    trust: TrustOption = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score any facts, collected or not: one row out for every row in.

    Columns: head, relation, tail, score (higher is more plausible), probability (that the fact is
    true; empty for recipes without a posterior), collected (the run was trained on it, or --graph
    has it). Rows with a name that is not in the graph get no score.

    Example: npugraph score runs/npu facts.tsv --out scored.tsv
    """
    from npugraph.asking import score as judge
    from npugraph.data.io import check_format, write_table

    check_format(out)
    check_file(out, overwrite)
    options = read_options(header, columns, delimiter)
    scored = judge(run, facts, options, graph=graph, device=device, trust=trust)
    check_space(out, 2 * scored.nbytes)
    write_table(scored, out, header=True)
    counts = {
        "run": str(run),
        "out": str(out),
        "facts": len(scored),
        "unknown": scored["score"].null_count,
        "collected": sum(scored["collected"].to_pylist()),
    }
    emit(
        "score",
        counts,
        as_json,
        lambda: table(str(facts), ("", ""), [[key, value] for key, value in counts.items()]),
    )
