"""The shell and Python blocks of the Markdown pages, found as a reader finds them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from markdown_it import MarkdownIt

from npugraph.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
SHELL_FENCES = {"sh", "bash", "shell", "console"}
PROGRAMS = ("npugraph", ".venv/bin/npugraph", "make", "pip", "python", "docker")
MARK = re.compile(r"<!-- (not run|file): (.+?) -->", re.S)


@dataclass(frozen=True)
class Block:
    """One block: its page and line, shell or python, why it is not run, the file that it is."""

    page: Path
    line: int
    kind: str
    text: str
    not_run: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def kind_of(language: str, text: str) -> str | None:
    """Tell shell from Python from anything else; only blocks with a known program are shell."""
    if language == "python":
        return "python"
    programs = [words[0] for words in map(str.split, text.splitlines()) if words]
    if language in SHELL_FENCES or (not language and set(programs) & set(PROGRAMS)):
        return "shell"
    return None


def blocks(page: Path) -> list[Block]:
    """Return the shell and Python blocks of a page, in order."""
    found = []
    marks: dict[str, str] = {}
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            kind = kind_of(token.info.strip(), token.content)
            if kind and token.map:
                where = page, token.map[0] + 1, kind, token.content
                found.append(Block(*where, marks.get("not run"), marks.get("file")))
        marks = dict(MARK.findall(token.content)) if token.type == "html_block" else {}
    return found


def commands(text: str) -> list[list[str]]:
    """Return the commands of a shell block as words, without comments and prompts."""
    lines = text.replace("\\\n", " ").splitlines()
    split = [shlex.split(line, comments=True) for line in lines]
    # What follows a > is for the shell.
    return [words[: words.index(">")] if ">" in words else words for words in split if words]


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that some words name, and the words after its name."""
    command: Any = typer.main.get_command(app)
    rest = [word for word in words if word not in ("--quiet", "--verbose")]
    while hasattr(command, "commands") and rest:
        assert rest[0] in command.commands, f"there is no command {' '.join(words)!r}"
        command = command.commands[rest.pop(0)]
    return command, rest


def parse_npugraph(words: list[str]) -> None:
    """Parse the words of a command as the command line does, without running it."""
    command, rest = find_command(words)
    assert not hasattr(command, "commands"), f"{' '.join(words)!r} is no whole command"
    command.make_context(command.name, rest)


def options_exist(words: list[str]) -> None:
    """Check the name and the options of a command that a sentence mentions, whole or not."""
    command, rest = find_command(words)
    known = {option for parameter in command.params for option in parameter.opts}
    unknown = {word for word in rest if word.startswith("--")} - known - {"--help"}
    assert not unknown, f"npugraph {command.name} has no {unknown}"


def write_inputs(folder: Path) -> None:
    """Write small files under the names that the pages use: facts, edges, answers, a log."""
    illnesses = ["Headache", *(f"Illness {n}" for n in range(1, 16))]
    drugs = ["Aspirin", *(f"Drug {n}" for n in range(1, 16))]
    facts = [
        (drug, "treats", illness)
        for i, drug in enumerate(drugs)
        for j, illness in enumerate(illnesses)
        if (i - j) % 3 == 0
    ]
    for i, (drug, illness) in enumerate(zip(drugs, illnesses, strict=True)):
        facts += [(drug, "targets", f"Gene {i % 3}"), (illness, "involves", f"Gene {i % 3}")]
    edges = ["from,type,to", *(",".join(fact) for fact in facts)]
    seen = [f"user{i},item{j},tag{j % 3}" for i in range(40) for j in range(40)]
    answers = ["\t".join([*fact, "true", "random"]) for fact in facts[:25]]
    files = {
        "facts.tsv": ["\t".join(fact) for fact in facts],
        "edges.csv": edges,
        "edges.tsv": ["\t".join([r, "2020", h, t]) for h, r, t in facts],
        "answers.tsv": ["head\trelation\ttail\tanswer\tdrawn", *answers],
        "log.csv": ["user,item,tag", *seen],
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
