"""Commands that take decisions home: export, apply, revert; and answers back in: answers."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npugraph.cli.common import JsonOption, emit, say
from npugraph.cli.output import OverwriteOption, check_file, check_folder

if TYPE_CHECKING:
    from npugraph.patching.apply import Outcome
    from npugraph.patching.patch import Patch

log = logging.getLogger(__name__)

PatchArgument = Annotated[
    Path, typer.Argument(metavar="PATCH", help="A patch of npugraph export, or of an audit.")
]
FactsArgument = Annotated[
    Path,
    typer.Argument(metavar="FACTS", help="The file it is for, or the folder of the files."),
]
ToOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="The file to write, or the folder for several. Without it: printed.",
        show_default=False,
    ),
]
InPlaceOption = Annotated[bool, typer.Option("--in-place", help="Change FACTS itself.")]


def export(
    audit: Annotated[Path, typer.Argument(metavar="AUDIT_DIR", help="The folder of an audit.")],
    format: Annotated[
        str,
        typer.Option(
            help="graph: the cleaned graph in the input's own format; patch: for npugraph apply; "
            "answers: CSV for a spreadsheet; rdf12, rdf-reified: Turtle with probability, reviewer "
            "and time; sparql: an update; kgx: nodes and edges; quickstatements: for Wikidata; "
            "sql: changes of a table.",
            show_default=False,
        ),
    ],
    out: ToOption = None,
    facts: Annotated[
        str | None,
        typer.Option(
            help="The file that was audited, or its folder, where it is not found by itself.",
            show_default=False,
        ),
    ] = None,
    quarantine: Annotated[
        bool,
        typer.Option("--quarantine", help="Take out the audit's quarantine, too."),
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(
            help="RDF, SPARQL: comes before names that are no IRIs, percent-encoded.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[str | None, typer.Option(help="SQL: the table.", show_default="facts")] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="SQL: its columns.", show_default="head,relation,tail", metavar="A,B,C"),
    ] = None,
    dialect: Annotated[
        str | None,
        typer.Option(
            help="SQL: standard (PostgreSQL, SQLite, ...) or mysql (also MariaDB).",
            show_default="standard",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take home what was decided about an audit's facts at the review desk.

    Facts called false go, corrected ones change, missing ones called true come; what nobody is
    sure of, or reviewers disagree on, stays. The input is read, never changed.

    Example: npugraph export audit --format graph --out cleaned.tsv
    """
    from npugraph.data.io import local_copy
    from npugraph.review.export import Decided, ExportSettings, check_format
    from npugraph.review.export import export as make
    from npugraph.settings import make_settings

    check_format(format)
    given = {"base": base, "table": table, "columns": columns, "dialect": dialect}
    settings = make_settings(
        ExportSettings, {name: value for name, value in given.items() if value is not None}
    )
    _need_place(out, as_json)
    if out is not None and not out.is_dir():
        check_file(out, overwrite)
    place = None if facts is None else local_copy(facts)
    made = make(Decided.open(audit, quarantine=quarantine, facts=place), format, settings)
    for note in made.notes:
        log.warning("%s", note)
    written = _write_files(made.files, out, overwrite)
    result: dict[str, Any] = {"audit": str(audit), "format": format, **made.counts}
    result |= {"notes": list(made.notes), "out": [str(path) for path in written]}
    emit("export", result, as_json, lambda: _print(made.files, out))
    say(_sentence(made.counts, written))


def answers(
    audit: Annotated[Path, typer.Argument(metavar="AUDIT_DIR", help="The folder of an audit.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Answers as .csv, .tsv, .txt or .parquet.")
    ],
    reviewer: Annotated[
        str | None,
        typer.Option(help="Who gave the answers of rows that do not say so.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Add the answers of a file to those of the review desk, such as a filled-in spreadsheet.

    The file has a header with head, relation, tail and answer, or is one of npugraph export
    --format answers. What is known already is not added again; a changed answer counts anew.

    Example: npugraph answers audit answers.csv --reviewer Ada
    """
    from npugraph.names import counted
    from npugraph.review.answer_files import import_answers
    from npugraph.review.material import Material
    from npugraph.review.store import FILE, Store

    material = Material.open(audit)
    with Store.open(audit / FILE) as store:
        done = import_answers(store, material, file, reviewer)
    result = {"audit": str(audit), "file": str(file), **dataclasses.asdict(done)}
    added = counted(done.added, "answer")
    sentence = f"{added} added, {done.known:,} known already, {done.open:,} open."
    emit("answers", result, as_json, lambda: typer.echo(sentence))


def apply(
    patch: PatchArgument,
    facts: FactsArgument,
    out: ToOption = None,
    in_place: InPlaceOption = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make the changes of a patch in the file that it was made for.

    Every byte of a line that is not changed stays. A Turtle, Parquet or compressed file is written
    anew, and a copy of the original is kept beside it for npugraph revert.

    Example: npugraph apply patch.json facts.tsv --out cleaned.tsv
    """
    from npugraph.patching import apply_patch, read_patch

    read = read_patch(patch)
    _check_target(read, facts, out, in_place, overwrite, as_json)
    _finish("apply", patch, read, apply_patch(read, facts), facts, out, in_place, as_json)


def revert(
    patch: PatchArgument,
    facts: FactsArgument,
    out: ToOption = None,
    in_place: InPlaceOption = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take the changes of a patch back: the file is as it was before npugraph apply.

    A TSV, CSV or N-Triples file comes back byte for byte; others from the copy that npugraph apply
    kept, or, where that is gone, by their facts.

    Example: npugraph revert patch.json cleaned.tsv --out facts.tsv
    """
    from npugraph.patching import read_patch, revert_patch

    read = read_patch(patch)
    _check_target(read, facts, out, in_place, overwrite, as_json)
    done = revert_patch(read, facts)
    for one in done:
        if not one.exact:
            log.warning(
                "The copy of %s that npugraph apply kept is not there; its facts come back, not "
                "its bytes.",
                one.source,
            )
    _finish("revert", patch, read, done, facts, out, in_place, as_json)


def _check_target(
    patch: Patch, facts: Path, out: Path | None, in_place: bool, overwrite: bool, as_json: bool
) -> None:
    """Refuse a place to write before any facts are read."""
    from npugraph.errors import SettingsError

    if in_place and out is not None:
        raise SettingsError("Give --out or --in-place, not both.")
    if not in_place:
        _need_place(out, as_json)
    if out is not None and facts.is_dir():
        check_folder(out)
        for place in (out / file.name for file in patch.files):
            # The folder may still have to be made.
            if place.exists():
                check_file(place, overwrite)
    elif out is not None:
        check_file(out, overwrite)


def _need_place(out: Path | None, as_json: bool) -> None:
    from npugraph.errors import SettingsError

    if as_json and out is None:
        raise SettingsError("With --json, say where to write: --out FILE.")


def _finish(
    name: str,
    path: Path,
    patch: Patch,
    done: list[Outcome],
    facts: Path,
    out: Path | None,
    in_place: bool,
    as_json: bool,
) -> None:
    """Write or print changed files, and say what was done."""
    from npugraph.patching import write_outcomes

    # What is compressed is never printed.
    files = tuple((one.source.name, one.content) for one in done)
    written = write_outcomes(done, facts, out) if out is not None or in_place else []
    result: dict[str, Any] = {"patch": str(path), "facts": str(facts), **patch.counts()}
    result |= {
        "exact": all(one.exact for one in done) if name == "revert" else True,
        "out": [str(place) for place in written],
    }
    emit(name, result, as_json, lambda: None if written else _print(files, None))
    say(_sentence(patch.counts(), written, "Facts" if name == "apply" else "Taken back"))


def _write_files(
    files: tuple[tuple[str, bytes], ...], out: Path | None, overwrite: bool
) -> list[Path]:
    """Write files: one to ``out``, several, or one into a folder, under their own names."""
    from npugraph.data.io import written_whole
    from npugraph.errors import writing

    if out is None:
        return []
    inside = len(files) > 1 or out.is_dir()
    if inside:
        check_folder(out)
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
    places = [out / name if inside else out for name, _ in files]
    for place in places:
        check_file(place, overwrite)
    for place, (_, data) in zip(places, files, strict=True):
        with written_whole(place) as temporary:
            temporary.write_bytes(data)
    return places


def _print(files: tuple[tuple[str, bytes], ...], out: Path | None) -> None:
    """Print a file where no place to write was given; only text can be."""
    from npugraph.errors import SettingsError

    if out is not None:
        return
    if len(files) > 1:
        raise SettingsError(f"{len(files)} files cannot be printed; give a folder: --out DIR.")
    name, data = files[0]
    if name.endswith((".parquet", ".gz", ".zst")):
        raise SettingsError(f"{name} is no text that could be printed; give --out FILE.")
    typer.echo(data, nl=False)


def _sentence(counts: dict[str, int], written: list[Path], begin: str = "Facts") -> str:
    """Say what was done."""
    words = ", ".join(f"{count:,} {word}" for word, count in counts.items())
    if not any(counts.values()):
        words = "nothing is decided, so nothing changes"
    if "answers" in counts:
        begin, words = "Answers", f"{counts['answers']:,}"
    place = f"; written: {', '.join(map(str, written))}" if written else ""
    return f"{begin}: {words}{place}."
