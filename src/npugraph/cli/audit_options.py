"""The options of ``npugraph audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RecipeOption = Annotated[str | None, typer.Option(help="The system that judges the facts.")]
FoldsOption = Annotated[int | None, typer.Option(help="Systems to train.", min=2)]
BudgetOption = Annotated[int | None, typer.Option(help="Facts you are willing to review.", min=1)]
PrecisionOption = Annotated[
    float | None, typer.Option(help="Share of wrong facts wanted in the quarantine.", min=0, max=1)
]
ProtectOption = Annotated[
    Path | None, typer.Option(help="A file of facts that are right; never suspected.")
]
AnswersOption = Annotated[
    Path | None,
    typer.Option(help="A file of answers: head, relation, tail, answer, drawn, chance."),
]
BetaOption = Annotated[
    float | None, typer.Option(help="Share of true facts, if you know it.", show_default=False)
]
AlphaOption = Annotated[
    float | None,
    typer.Option(help="Share of true facts among those not stored.", show_default=False),
]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda, ...; auto takes a GPU.")]
MissingOption = Annotated[
    int | None,
    typer.Option(
        help="Missing facts to list at most. Default: those of which half should be true.",
        min=0,
        show_default=False,
    ),
]
AuditSeedOption = Annotated[
    int | None, typer.Option(help="Every random draw follows from it.", min=0)
]
ViewsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="Kinds of evidence: embedding, pairs, path, roles, names, near. Default: what suits.",
        show_default=False,
    ),
]
EvidenceOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN,...",
        help="Columns that may say something about a fact: numbers or words; repeatable.",
        show_default=False,
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="A column that says where a fact is from: errors of one source come together.",
        show_default=False,
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Train and judge on a Ray cluster: its address, 'auto' for the one of this machine, "
        "or 'local' for this machine alone. All machines must see --out.",
        show_default=False,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        help="Processes at once on the cluster, one thread each. Default: one per core, or GPU.",
        min=1,
        show_default=False,
    ),
]
OutOption = Annotated[
    str | None, typer.Option(help="The folder to write, or an address such as s3://bucket/audit.")
]
WorkOption = Annotated[
    Path | None,
    typer.Option(
        help="A local folder for the work where --out is an address; one that is kept can be gone "
        "on with.",
        show_default=False,
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        metavar="OLD_AUDIT",
        help="Judge what was added or changed since an earlier audit, with its systems.",
        show_default=False,
    ),
]
AuditSetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting of the recipe, or one of the audit that the recipe does not have: "
        "with --recipe npugraph, --set beta= is the recipe's and --beta the audit's. May be "
        "repeated.",
    ),
]
ShowOption = Annotated[
    bool, typer.Option("--show-settings", help="Print the settings, their defaults, and stop.")
]
