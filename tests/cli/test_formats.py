"""What the commands write is what the schemas and docs/formats.md say, no more and no less."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import typer
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from npugraph.auditing.issues import CHECKS
from npugraph.cli import app
from npugraph.cli.output import AUDIT_FILES, PERTURB_FILES, RUN_FILES, TUNE_FILES
from npugraph.version import __version__
from script_files import load_script

formats = load_script("build_formats_docs")
COMMANDS = {path.stem: formats.read(path) for path in (formats.SCHEMAS / "commands").iterdir()}
FILES = {
    (path.parent.name, path.stem): formats.read(path)
    for path in (formats.SCHEMAS / "files").glob("*/*.json")
}
SMALL = ("--set", "d=4", "--set", "epochs=2", "--set", "validate_every=1", "--set", "device=cpu")
AUDIT = (
    "--set", "d=4", "--set", "epochs=1", "--set", "search=false", "--device", "cpu", "--folds", "2",
    "--budget", "5", "--set", "missing=5", "--set", "explained=2",
)  # fmt: skip
PLAN = """
name = "one"
graphs = ["GRAPH"]
[settings]
device = "cpu"
epochs = 1
d = 4
[[systems]]
label = "DistMult"
recipe = "distmult"
"""


def write_inputs(folder: Path) -> None:
    rows = sorted({(f"a{i % 13}", f"r{i % 2}", f"b{(i * 3) % 17}") for i in range(200)})
    lines = ["\t".join(row) + "\n" for row in rows]
    # The last line is an issue: it repeats the first.
    (folder / "facts.tsv").write_text("".join([*lines, lines[0]]), encoding="utf-8")
    (folder / "more.tsv").write_text("".join([*lines[3:], "a0\tr0\tb1\n"]), encoding="utf-8")
    # IRIs have short forms.
    more = [f"http://x.org/{line[:-1]}\t0.9\t{int(i > 5)}\n" for i, line in enumerate(lines)]
    header = "head\trelation\ttail\tconfidence\tlabel\n"
    (folder / "labelled.tsv").write_text(header + "".join(more), encoding="utf-8")
    said = ",".join(rows[3]) + ",false\n"
    (folder / "answers.csv").write_text(f"head,relation,tail,answer\n{said}", encoding="utf-8")
    (folder / "rules.toml").write_text("[relation.r0]\none_tail = true\n", encoding="utf-8")
    (folder / "log.tsv").write_text("user\titem\ttag\nu\ti\tt\n", encoding="utf-8")
    (folder / "one.toml").write_text(PLAN.replace("GRAPH", str(folder / "facts.tsv")))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A folder with the files of every command, and all that was printed with --json."""
    place = tmp_path_factory.mktemp("formats")
    write_inputs(place)
    facts, labelled, bench = place / "facts.tsv", place / "labelled.tsv", place / "bench"
    one = place / "one.toml"
    npu = ("--recipe", "npugraph", "--set", "hidden=4", "--set", "negatives=4", "--set", "warmup=1")
    commands: list[tuple[Any, ...]] = [
        ("fit", labelled, "--out", place / "run", *SMALL),
        ("fit", facts, "--out", place / "npu", *SMALL, *npu),
        ("fit", facts, "--out", place / "paths", "--recipe", "path", *SMALL),
        ("fit", "--show-settings"),
        ("evaluate", place / "run", "--filter", "raw", "--by", "relation", "--by", "cardinality"),
        ("predict", place / "run", "--head", "http://x.org/a1", "--relation", "r1"),
        ("score", place / "npu", facts, "--out", place / "score" / "scored.tsv"),
        ("audit", facts, "--out", place / "audit", *AUDIT, "--beta", "0.8"),
        ("audit", labelled, "--out", place / "audit-labelled" / "audit", *AUDIT,
         "--rules", place / "rules.toml"),
        ("audit", "--out", place / "demo" / "audit", *AUDIT),
        ("audit", place / "more.tsv", "--out", place / "since" / "audit", "--since",
         place / "audit"),
        ("audit", facts, "--out", place / "nothing", "--since", place / "audit"),
        ("audit", "--show-settings"),
        ("explain", place / "audit", "a1", "r1", "b3", "--device", "cpu"),
        ("explain", place / "run", "http://x.org/a1", "r1", "b3", "--device", "cpu"),
        ("explain", place / "paths", "a1", "r1", "b3", "--device", "cpu"),
        ("export", place / "audit", "--format", "patch", "--quarantine", "--out", place / "p.json"),
        ("apply", place / "p.json", facts, "--out", place / "applied.tsv"),
        ("revert", place / "p.json", place / "applied.tsv", "--out", place / "reverted.tsv"),
        ("answers", place / "audit", place / "answers.csv", "--reviewer", "Ada"),
        ("export", place / "audit", "--format", "answers", "--out", place / "again.csv"),
        ("check", facts, "--out", place / "check" / "issues.tsv"),
        ("perturb", facts, "--out", place / "perturbed"),
        ("perturb", "--rate", "0.1", "--out", place / "world" / "perturbed"),
        ("tune", facts, "--out", place / "tuned", "--trials", "1", "--set", "epochs=1"),
        ("interactions", place / "log.tsv", "--out", place / "g.tsv", "--min-user", "1",
         "--min-item", "1", "--min-tag", "1"),
        ("datasets", "list"),
        ("datasets", "show", "umls"),
        ("datasets", "show", "world"),
        ("recipes", "list"),
        ("recipes", "show", "npugraph"),
        ("bench", "list"),
        ("bench", "plan", one, "--out", bench),
        ("bench", "run", one, "--out", bench),
        ("bench", "merge", bench, "--out", place / "merged" / "bench"),
        ("bench", "table", one, "--out", bench),
        ("bench", "figures", one, "--out", bench),
        ("serve", place / "run", "--port", "0", "--device", "cpu"),
        ("review", place / "audit", "--port", "0", "--no-browser"),
    ]  # fmt: skip
    (place / "score").mkdir()
    (place / "check").mkdir()
    printed = []
    with pytest.MonkeyPatch.context() as patch:
        # A server says where it is, and would go on for ever.
        patch.setattr("npugraph.review.web.run.serve", lambda app, listener: None)
        for words in commands:
            done = CliRunner().invoke(app, [*map(str, words), "--json"])
            assert done.exit_code == 0, (words, done.output, done.exception)
            printed.append(json.loads(done.stdout))
    return place, printed


def check(schema: dict[str, Any], value: Any, where: str) -> None:
    problems = [
        f"{e.json_path}: {e.message}" for e in Draft202012Validator(schema).iter_errors(value)
    ]
    assert problems == [], (where, problems[:5])


def test_every_schema_is_one() -> None:
    for schema in (*COMMANDS.values(), *FILES.values()):
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    names = [schema["$id"] for schema in (*COMMANDS.values(), *FILES.values())]
    assert len(set(names)) == len(names)


def test_every_command_has_a_schema() -> None:
    def names(group: Any, prefix: str = "") -> set[str]:
        found = set()
        for name, command in group.commands.items():
            inner = getattr(command, "commands", None)
            found |= names(command, f"{prefix}{name}.") if inner else {prefix + name}
        return found

    assert names(typer.main.get_command(app)) == COMMANDS.keys() - {
        "fit.settings",
        "audit.settings",
        "audit.nothing",
    }


def test_every_kind_of_issue_is_named() -> None:
    kinds = [check.kind for check in CHECKS]
    for folder in ("audit", "check"):
        assert FILES[folder, "issues.tsv"]["properties"]["kind"]["enum"] == kinds
    examples = COMMANDS["check"]["properties"]["examples"]["items"]
    assert examples["properties"]["kind"]["enum"] == kinds


def test_what_is_printed(written: tuple[Path, list[dict[str, Any]]]) -> None:
    seen = set()
    for printed in written[1]:
        name = printed["schema"].removeprefix("npugraph.").rsplit("/", 1)[0]
        check(COMMANDS[name], printed, name)
        assert printed["version"] == __version__
        assert list(printed)[:2] == ["schema", "version"]
        seen.add(name)
    assert seen == COMMANDS.keys()


def records(path: Path, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Read a file's objects: one of JSON, a line or a row each otherwise."""
    if path.suffix == ".json":
        return [json.loads(path.read_text(encoding="utf-8"))]
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
        return rows
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    names = ["head", "relation", "tail"]
    if lines and (lines[0][:3] == names or lines[0][0] in ("trial", "kind")):
        names, lines = lines[0], lines[1:]
    known = schema["properties"]
    return [
        {n: _value(text, known.get(n, {})) for n, text in zip(names, line, strict=True)}
        for line in lines
    ]


def _value(text: str, schema: dict[str, Any]) -> Any:
    kinds = schema.get("type", "string")
    if text == "":
        return None
    if "boolean" in kinds:
        return {"true": True, "false": False}[text]
    return json.loads(text) if "number" in kinds or "integer" in kinds else text


def test_every_file_is_described(written: tuple[Path, list[dict[str, Any]]]) -> None:
    place, _ = written
    folders = {
        "run": [place / "run", place / "npu", place / "audit" / "folds" / "fold-1"],
        "audit": [place / "audit", place / "audit-labelled/audit", place / "demo" / "audit"],
        "perturbed": [place / "perturbed", place / "world" / "perturbed"],
        "tuned": [place / "tuned"],
        "bench": [place / "bench", place / "merged" / "bench"],
        "score": [place / "score"],
        "check": [place / "check"],
    }
    seen = set()
    for kind, paths in folders.items():
        plain = {name.split("/")[0] for name in formats.FOLDERS[kind][1]}
        for path in (path for folder in paths for path in folder.iterdir()):
            if path.name in plain:
                continue
            schema = FILES[kind, path.name]
            for record in records(path, schema):
                check(schema, record, str(path))
                seen.add((kind, path.name))
    # Nothing is described that nobody writes.
    assert seen == FILES.keys()


def test_the_lists_of_files_agree() -> None:
    for kind, names in (
        ("run", RUN_FILES),
        ("audit", AUDIT_FILES),
        ("perturbed", PERTURB_FILES),
        ("tuned", TUNE_FILES),
    ):
        described = {name for folder, name in FILES if folder == kind}
        plain = {name for name in formats.FOLDERS[kind][1] if not name.endswith("/")}
        # People gave the answers: replacing an audit must not take them away.
        assert described | plain - {"answers.sqlite"} == set(names)


def test_stored_results_keep_to_the_schema() -> None:
    for name in ("results.jsonl", "costs.jsonl"):
        path = formats.ROOT / "benchmarks" / "results" / "bench" / name
        for record in records(path, FILES["bench", name]):
            check(FILES["bench", name], record, record["key"])


def test_the_page_is_up_to_date() -> None:
    assert formats.PAGE.read_text(encoding="utf-8") == formats.page(), "Run make formats-docs."


def test_a_new_key_is_noticed() -> None:
    with pytest.raises(AssertionError, match="unheard"):
        check(COMMANDS["bench.merge"], {"unheard": 1}, "here")
