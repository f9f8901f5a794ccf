"""Every shell and Python block of the pages works: it is run, or, where it is marked, parsed.

A block that takes long or needs a GPU, a download or another program has a comment before it,
``<!-- not run: why -->``. Its commands must still exist and take the options. A Python block after
``<!-- file: NAME -->`` is that file for the blocks that follow.
"""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from doc_blocks import (
    PAGES,
    ROOT,
    TARGETS,
    Block,
    blocks,
    commands,
    options_exist,
    parse_npugraph,
    write_inputs,
)
from npugraph.cli import app

ALL = {page: blocks(page) for page in PAGES}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]


BEGINNINGS = ("npugraph ", "make ", "python -m benchmarks")


class Parsed(Exception):  # noqa: N818 - it says that all is well
    """The options of a script were taken."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_modules: None) -> Path:
    """A folder with the files that the pages name, where commands are run."""
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def parse_pip(words: list[str]) -> None:
    """Check that ``pip install`` names this package with extras it has, or torch."""
    assert words[0] == "install", words
    for word in words[1:]:
        named = re.fullmatch(r"(?:\.|npugraph)(?:\[([a-z,]+)\])?", word)
        assert named or word.startswith(("-", "torch")), word
        if named and named[1]:
            assert set(named[1].split(",")) <= set(EXTRAS), word


def parse_script(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a script of the repository and stop it once its options are parsed."""
    parse = argparse.ArgumentParser.parse_args

    def stop(parser: argparse.ArgumentParser, *given: object) -> None:
        parse(parser, *given)  # type: ignore[call-overload]
        raise Parsed

    module = words[0] == "-m"
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(sys, "argv", words[1:] if module else words)
    monkeypatch.syspath_prepend(ROOT)
    start = runpy.run_module if module else runpy.run_path
    with pytest.raises(Parsed):
        start(words[1] if module else str(ROOT / words[0]), run_name="__main__")


def parse(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Check one command without running it."""
    program, rest = words[0], words[1:]
    if program in ("npugraph", ".venv/bin/npugraph"):
        parse_npugraph(rest)
    elif program == "make":
        unknown = {word for word in rest if "=" not in word} - TARGETS
        assert not unknown, f"the Makefile has no target {unknown}"
    elif program == "pip":
        parse_pip(rest)
    elif program == "python":
        parse_script(rest, monkeypatch)
    elif program == "docker":
        assert rest[0] in ("build", "run")
    else:
        pytest.fail(f"{program!r} is no program that the pages may name")


def run(block: Block, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a block, or parse it where it is marked; only our own commands are ever run."""
    if block.kind == "python":
        tree = ast.parse(block.text, str(block))
        if block.not_run:
            tree.body = [x for x in tree.body if isinstance(x, ast.Import | ast.ImportFrom)]
        exec(compile(tree, str(block), "exec"), names)
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
        return
    for words in commands(block.text):
        if words[0].endswith("npugraph") and not block.not_run:
            app(words[1:], standalone_mode=False)
        else:
            with monkeypatch.context() as patch:
                parse(words, patch)


@pytest.mark.parametrize("page", [page for page in PAGES if ALL[page]], ids=lambda page: page.name)
def test_every_block_of_a_page_works(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {}
    failed = []
    for block in ALL[page]:
        try:
            run(block, names, monkeypatch)
        except (Exception, SystemExit) as error:
            failed.append(f"{block}: {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_within_sentences_exist(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", page.read_text(encoding="utf-8"))
    failed = []
    for span in (span for span in spans if span.startswith(BEGINNINGS)):
        words = commands(span)[0]
        try:
            if words[0] == "npugraph":
                options_exist(words[1:])
            elif words[0] == "make" or len(words) > 3:
                with monkeypatch.context() as patch:
                    parse(words, patch)
        except (Exception, SystemExit) as error:
            failed.append(f"{span}: {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)


def test_a_block_that_fails_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [
        "npugraph audit facts.tsv --no-such-option",
        "npugraph no-such-command",
        "make no-such-target",
        "pip install 'npugraph[no-such-extra]'",
        "python -m benchmarks.no_such_script",
        "no-such-program",
    ]
    for text in wrong:
        for reason in (None, "why"):
            with pytest.raises((Exception, SystemExit, pytest.fail.Exception)):
                run(Block(ROOT / "README.md", 1, "shell", text, reason), {}, monkeypatch)
    with pytest.raises(ZeroDivisionError):
        run(Block(ROOT / "README.md", 1, "python", "1 / 0", None), {}, monkeypatch)


def test_blocks_and_marks_are_found_as_a_reader_finds_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n"
        "    npugraph fit \\\n      facts.tsv  # a comment\n\n"
        "<!-- not run: needs a GPU -->\n\n```python\nx = 1\n```\n\n"
        "Text.\n\n```python\ny = 2\n```\n\n"
        "    h = sum(x)\n\n```json\n{}\n```\n",
        encoding="utf-8",
    )
    found = blocks(page)
    assert [(b.line, b.kind, b.not_run) for b in found] == [
        (3, "shell", None),
        (8, "python", "needs a GPU"),
        (14, "python", None),
    ]
    assert commands(found[0].text) == [["npugraph", "fit", "facts.tsv"]]
