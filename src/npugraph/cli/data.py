"""Commands about data: datasets, perturb, interactions."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from npugraph.cli.common import (
    ColumnsOption,
    DelimiterOption,
    GraphArgument,
    HeaderOption,
    JsonOption,
    SeedOption,
    emit,
    load_splits,
    say,
    table,
)
from npugraph.cli.output import (
    OverwriteOption,
    check_empty,
    check_file,
    check_folder,
    check_ours,
    check_space,
    clear_folder,
)

datasets = typer.Typer(no_args_is_help=True, help="The graphs that are known by name.")


@datasets.command("list")
def list_datasets(as_json: JsonOption = False) -> None:
    """List the graphs that are known by name, and whether each is on this machine.

    Example: npugraph datasets list
    """
    from npugraph.data.datasets import BUNDLED, CATALOGUE, find

    rows: list[dict[str, Any]] = []
    for name, entry in CATALOGUE.items():
        place = find(name)
        rows.append(
            {
                "name": name,
                "entities": entry.entities,
                "relations": entry.relations,
                **entry.counts,
                "here": place is not None,
                "folder": None if place is None else str(place),
                "public": entry.downloadable,
            }
        )
    shown = ("name", "entities", "relations", "train", "valid", "test", "here", "public")
    emit(
        "datasets.list",
        {"bundled": BUNDLED, "datasets": rows},
        as_json,
        lambda: table(
            f"Known graphs (and '{BUNDLED}', which comes with the package)",
            shown,
            [[row[key] for key in shown] for row in rows],
        ),
    )


@datasets.command("show")
def show_dataset(
    name: Annotated[str, typer.Argument(help="A name of 'npugraph datasets list', or 'world'.")],
    as_json: JsonOption = False,
) -> None:
    """Show what a graph is, its counts, licence, source and files.

    Example: npugraph datasets show fb15k-237
    """
    from npugraph.data.datasets import BUNDLED, bundled, find, info

    if name == BUNDLED:
        described: dict[str, Any] = {
            **bundled().summary(),
            "licence": "MIT, from the package countryinfo; the text is in WORLD_LICENSE.txt",
        }
    else:
        entry = info(name)
        place = find(name)
        described = {
            "name": name,
            "title": entry.title,
            "description": entry.description,
            "entities": entry.entities,
            "relations": entry.relations,
            **entry.counts,
            "columns": ", ".join(entry.columns),
            "licence": entry.licence,
            "source": entry.source,
            "folder": None if place is None else str(place),
            "files": {file: dataclasses.asdict(about) for file, about in entry.files.items()},
        }

    def show() -> None:
        files = described.pop("files", {})
        table(name, ("", ""), [[key, value] for key, value in described.items()])
        if files:
            rows = [[file, f["rows"], f["sha256"], f["url"]] for file, f in files.items()]
            table("Files", ("file", "rows", "sha256", "public copy"), rows)

    emit("datasets.show", described, as_json, show)


def perturb(
    graph: GraphArgument = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for train, valid, test, truth.tsv and stats.json."),
    ] = None,
    rate: Annotated[float, typer.Option(help="Share of the facts to flip (ptb_rate).")] = 0.3,
    noise: Annotated[
        str,
        typer.Option(
            help="Planted facts: random, one-sided, typed, wrong-tail, swapped, relation, "
            "relation-typed, hard, near-duplicate, crowded, one-source or caged."
        ),
    ] = "random",
    added_share: Annotated[
        float | None,
        typer.Option(
            help="Share of the flips that plant a false fact (not with caged). Default: 0.1.",
            show_default=False,
        ),
    ] = None,
    seed: SeedOption = 0,
    overwrite: OverwriteOption = False,
    header: HeaderOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a graph noisy and incomplete as in the paper, and keep the truth beside it.

    Train and valid are merged, a share of their facts is flipped (90% removed, 10% planted),
    and the result is split 7:3. The test facts stay as they are. With --noise caged facts are only
    planted: --rate of all, those of test among them, as the published code of CAGED does.

    Example: npugraph perturb fb15k-237 --rate 0.3 --noise random --seed 0 --out ptb
    """
    from npugraph.data import perturb as protocol
    from npugraph.errors import SettingsError

    if noise == "caged" and added_share is not None:
        raise SettingsError(
            f"--added-share {added_share:g} means nothing with --noise caged, which only plants "
            "facts; leave it out, and say by --rate how many."
        )
    usual = protocol.PerturbSettings.added_share
    settings = protocol.PerturbSettings(
        rate=rate,
        noise=noise,  # type: ignore[arg-type]  # checked by the settings
        added_share=usual if added_share is None else added_share,
        seed=seed,
    )
    if out is None:
        raise SettingsError("Say where to write the perturbed graph: --out DIR.")
    check_folder(out)
    (check_ours if overwrite else check_empty)(out, "perturbed graph")
    splits = load_splits(graph, header, columns, delimiter, seed)
    perturbed, truth = protocol.perturb(splits, settings)
    stats = protocol.describe(perturbed, truth, settings, splits.name)
    written = sum(part.to_table().nbytes for part in perturbed.parts().values())
    # The removed facts are in truth.tsv.
    check_space(out, int(2 * written / max(1 - rate, 0.1)))
    if overwrite:
        clear_folder(out, "perturbed graph")
    protocol.save(perturbed, truth, stats, out)

    def show() -> None:
        paper = stats["paper"] or {}
        rows = [[part, stats[part], paper.get(part)] for part in ("train", "valid", "test")]
        rows += [[key, stats[key], None] for key in ("planted", "removed", "true_share")]
        table(f"{splits.name}, rate {rate:g}, {noise} noise", ("", "here", "in the paper"), rows)

    emit("perturb", {**stats, "out": str(out)}, as_json, show)
    say(f"Written to {out}; the hidden truth is {out / 'truth.tsv'}.")


def interactions(
    log: Annotated[Path, typer.Argument(help="TSV, CSV or Parquet with a named column each.")],
    out: Annotated[Path, typer.Option(help="The graph file: .tsv, .csv or .parquet.")],
    columns: Annotated[
        str, typer.Option(help="Names of the user, item and tag columns.")
    ] = "user,item,tag",
    min_user: Annotated[int, typer.Option(help="Drop users under this many interactions.")] = 30,
    min_item: Annotated[int, typer.Option(help="Drop items under this many.")] = 30,
    min_tag: Annotated[int, typer.Option(help="Drop tags under this many.")] = 10,
    max_user: Annotated[int | None, typer.Option(help="Drop users over this many first.")] = None,
    max_item: Annotated[int | None, typer.Option(help="Drop items over this many first.")] = None,
    drop_top_share: Annotated[
        float | None, typer.Option(help="Or: drop this share of the most frequent, e.g. 0.001.")
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build a user-item-tag graph from an interaction log, by the paper's Twitter rules.

    Rare users, items and tags are dropped, again and again until nothing changes; extremely
    frequent users and items, probably bots, can be dropped first.

    Example: npugraph interactions log.csv --out twitter.tsv --min-user 30 --drop-top-share 0.001
    """
    from npugraph.data.interactions import build_interactions
    from npugraph.data.io import check_format, write_table
    from npugraph.errors import SettingsError

    names = columns.split(",")
    if len(names) != 3:
        raise SettingsError(f"--columns {columns!r}: name three columns: user,item,tag.")
    check_format(out)
    check_file(out, overwrite)
    graph, stats = build_interactions(
        log,
        columns=(names[0], names[1] or None, names[2] or None),
        min_user=min_user,
        min_item=min_item,
        min_tag=min_tag,
        max_user=max_user,
        max_item=max_item,
        drop_top_share=drop_top_share,
    )
    check_space(out, 2 * graph.nbytes)
    write_table(graph, out)
    counts = dataclasses.asdict(stats)
    emit(
        "interactions",
        {**counts, "out": str(out)},
        as_json,
        lambda: table(str(log), ("", "count"), list(counts.items())),
    )
    say(f"Written to {out}.")
