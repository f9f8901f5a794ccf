"""The command that looks for issues without a model: check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npugraph.cli.common import (
    ColumnsOption,
    DelimiterOption,
    GraphArgument,
    HeaderOption,
    JsonOption,
    SpillOption,
    emit,
    load_graph,
    say,
)
from npugraph.cli.output import OverwriteOption, check_file

if TYPE_CHECKING:
    from npugraph.graph import KnowledgeGraph
    from npugraph.report import IssueGroup

TypesOption = Annotated[
    Path | None,
    typer.Option(help="A file with the columns entity and type; without it, types are learned."),
]
RulesOption = Annotated[
    Path | None,
    typer.Option(help="A TOML file of what must hold of a relation: domain, one_tail, ..."),
]
ShapesOption = Annotated[
    Path | None, typer.Option(help="A Turtle file of SHACL shapes; needs pySHACL.")
]


def check(
    graph: GraphArgument = None,
    out: Annotated[
        Path | None, typer.Option(help="The file for all issues: .tsv, .csv or .parquet.")
    ] = None,
    types: TypesOption = None,
    rules: RulesOption = None,
    shapes: ShapesOption = None,
    examples: Annotated[int, typer.Option(help="Examples of each kind to show.", min=0)] = 3,
    overwrite: OverwriteOption = False,
    header: HeaderOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    spill: SpillOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find what breaks the regularities of a graph, without training: takes seconds.

    Names that differ in form only, self-loops, both directions, second values, types, values out
    of order, repeats. Only strong regularities count; an issue is a reason to look, no verdict.

    Example: npugraph check facts.tsv --out issues.tsv
    """
    from npugraph.auditing.issues import find_issues
    from npugraph.data.io import check_format, write_table
    from npugraph.names import counted

    if out is not None:
        check_format(out)
        check_file(out, overwrite)
    whole = load_graph(graph, header, columns, delimiter, spill=spill)
    found = find_issues(whole, types=types, rules=rules, shapes=shapes)
    if out is not None:
        write_table(found.table, out, header=True)
    result = {
        "graph": whole.name or whole.source,
        "facts": len(whole.index()),
        "entities": whole.num_entities,
        "relations": whole.num_relations,
        "issues": found.counts,
        "examples": found.first(examples).to_pylist(),
        "out": None if out is None else str(out),
    }
    emit("check", result, as_json, lambda: _show(found.groups(examples), whole))
    if out is not None:
        say(f"{counted(len(found), 'issue is', 'issues are')} in {out}.")


def _show(groups: tuple[IssueGroup, ...], graph: KnowledgeGraph) -> None:
    """Print each kind with its first occurrences; what is no sign of an error comes last."""
    if not groups:
        typer.echo("No issue was found.")
    for group in groups:
        mark = " (information)" if group.information else ""
        typer.echo(f"{group.title}: {group.count:,}{mark}  [{group.kind}]")
        for row in group.examples:
            typer.echo(f"  {row.score:.3f}  {', '.join(map(graph.readable, row.about))}")
            typer.echo(f"         {row.sentence}")
