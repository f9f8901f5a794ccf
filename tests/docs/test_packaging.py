"""The files around the package: they name only what exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from doc_blocks import ROOT, TARGETS, parse_npugraph, write_inputs

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
# What the extras install, by the names that Python imports.
EXTRA_MODULES = (
    *("babel", "countryinfo", "fastapi", "httpx2", "hypothesis", "jsonschema", "numba", "optuna"),
    *("playwright", "polars", "pykeen", "pyoxigraph", "pytest", "ray", "schemathesis", "sphinx"),
    *("starlette", "triton", "uvicorn", "yaml"),
)
WITHOUT_EXTRAS = f"""
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        absent = name.split(".")[0] in {EXTRA_MODULES}
        return None if absent else super().find_spec(name, path, target)

sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
from npugraph.cli import app
app(["audit", "facts.tsv", "--out", "audit", "--set", "epochs=2"])
"""


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_image_is_built_of_files_that_are_there_and_runs_a_command() -> None:
    steps = [
        line.split(maxsplit=1)
        for line in text_of("Dockerfile").splitlines()
        if line and line[0] != "#"
    ]
    given = {word: [rest for first, rest in steps if first == word] for word, _ in steps}
    sources = [source for rest in given["COPY"] for source in rest.split()[:-1]]
    allowed = [line[1:] for line in text_of(".dockerignore").splitlines() if line[:1] == "!"]
    assert sources
    assert sorted(sources) == sorted(allowed)
    for source in sources:
        assert (ROOT / source).exists(), source
    assert json.loads(given["ENTRYPOINT"][0]) == ["npugraph"]
    parse_npugraph(json.loads(given["CMD"][0]))
    # What setuptools reads of the project is in the image.
    assert PROJECT["readme"] in sources
    for licence in PROJECT["license-files"]:
        assert any(licence == s or licence.startswith(f"{s}/") for s in sources), licence


def test_the_workflow_runs_targets_that_exist_with_pinned_actions() -> None:
    workflow = yaml.safe_load(text_of(".github/workflows/ci.yml"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    for step in steps:
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]), step
    runs = [step["run"].split() for step in steps if "run" in step]
    made = {words[1] for words in runs if words[0] == "make"}
    assert {"test", "demo"} <= made <= TARGETS


def test_the_citation_has_what_its_format_requires() -> None:
    citation = yaml.safe_load(text_of("CITATION.cff"))
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["license"] == PROJECT["license"]
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= set(reference)
        assert all({"given-names", "family-names"} <= set(who) for who in reference["authors"])


def test_the_extra_all_holds_every_extra_for_users() -> None:
    extras = PROJECT["optional-dependencies"]
    (named,) = re.findall(r"npugraph\[([a-z,]+)\]", " ".join(extras["all"]))
    assert set(named.split(",")) == set(extras) - {"all", "dev", "docs"}
    assert "-e '.[all,dev,docs]'" in text_of("Makefile")


def test_an_audit_runs_without_the_packages_of_any_extra(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "audit" / "report.html").is_file()


def test_the_demo_needs_no_extra() -> None:
    demo = re.search(r"^demo: (.*?) ##", text_of("Makefile"), re.M)
    assert demo
    assert demo[1] == "$(CORE)"


def test_every_file_of_the_package_is_installed() -> None:
    package = ROOT / "src" / "npugraph"
    patterns = SETTINGS["tool"]["setuptools"]["package-data"]["npugraph"]
    installed = {path for pattern in patterns for path in package.glob(pattern)}
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix != ".py"}
    left_out = {path for path in files if "__pycache__" not in path.parts} - installed
    assert installed
    assert not left_out
