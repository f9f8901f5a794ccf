"""The files around the package: they name only what exists."""

from __future__ import annotations

import json
import re
import tomllib

import yaml

from doc_blocks import ROOT, TARGETS, parse_npugraph

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


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


def test_the_demo_needs_no_extra() -> None:
    demo = re.search(r"^demo: (.*?) ##", text_of("Makefile"), re.M)
    assert demo
    assert demo[1] == "$(CORE)"
