"""Recipes from outside of the package: the example of docs/extend.md, by all ways there are."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import npugraph
from npugraph.cli import main
from npugraph.errors import RunError, SettingsError
from npugraph.recipes import find_recipe, get_recipe
from npugraph.recipes.origin import installed
from npugraph.settings import make_settings

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
SMALL = {"d": 8, "epochs": 2, "device": "cpu"}


def facts() -> list[tuple[str, str, str]]:
    """People who know the next ones, both ways."""
    pairs = [(i, (i + step) % 20) for i in range(20) for step in (1, 2, 3)]
    names = [(f"p{i}", f"p{j}") for i, j in pairs]
    return [(a, "knows", b) for a, b in names] + [(b, "known_by", a) for a, b in names]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_modules: None) -> Path:
    """A folder with the recipe file of the guide and some facts, as the working directory."""
    (tmp_path / "simple.py").write_text(BLOCKS[0], encoding="utf-8")
    lines = "".join("\t".join(fact) + "\n" for fact in facts())
    (tmp_path / "facts.tsv").write_text(lines, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(monkeypatch: pytest.MonkeyPatch, capsys: Any, *words: str) -> tuple[int, str, str]:
    """Run a command in this process: its exit code, stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["npugraph", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    out, err = capsys.readouterr()
    code = stopped.value.code
    return code if isinstance(code, int) else 0, out, err


def origin_of(run: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(Path(run, "settings.json").read_text())["recipe_origin"]
    return record


def change(file: Path) -> None:
    file.write_text(file.read_text() + "\n# changed\n")


# The example


def test_the_first_block_is_a_whole_recipe_of_at_most_45_lines(work: Path) -> None:
    assert len(BLOCKS[0].splitlines()) <= 45
    assert get_recipe("simple.py").name == "simple"


def test_its_scorer_is_simple(work: Path) -> None:
    training = get_recipe("simple.py").build(
        make_settings(get_recipe("simple.py").settings, SMALL),
        npugraph.load_graph(facts()).split().train,
    )
    scorer: Any = training.system.scorer
    rng = torch.Generator().manual_seed(0)
    head, relation, tail = torch.randn(3, 5, 6, generator=rng, dtype=torch.float64)
    (h1, h2), (r1, r2), (t1, t2) = (v.chunk(2, -1) for v in (head, relation, tail))
    literal = ((h1 * r1 * t2).sum(-1) + (h2 * r2 * t1).sum(-1)) / 2
    assert torch.allclose(scorer.score(head, relation, tail), literal)
    all_tails = scorer.score_all(head, relation, tail, "tail")
    all_heads = scorer.score_all(tail, relation, head, "head")
    assert torch.allclose(all_tails.diagonal(), literal)
    assert torch.allclose(all_heads.diagonal(), literal)


def test_by_the_commands(work: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def run(*words: str) -> dict[str, Any]:
        code, out, err = command(monkeypatch, capsys, *words, "--json")
        assert code == 0, err
        result: dict[str, Any] = json.loads(out)
        return result

    sets = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    run("fit", "facts.tsv", "--recipe", "simple.py", "--out", "run", *sets)
    assert origin_of("run")["kind"] == "file"
    assert origin_of("run")["path"] == str(work / "simple.py")
    assert run("evaluate", "run", "--device", "cpu")["filters"]["clean"]["mrr"] > 0
    asked = run("predict", "run", "--head", "p1", "--relation", "knows", "--device", "cpu")
    assert len(asked["predictions"]) == 10
    scored = run("score", "run", "facts.tsv", "--out", "scored.tsv", "--device", "cpu")
    assert scored["facts"] == len(facts())
    fact = ("p1", "knows", "p2")
    assert run("explain", "run", *fact, "--device", "cpu")["fact"] == list(fact)
    quick = ["--set", "epochs=1", "--set", "d=4", "--folds", "2", "--device", "cpu"]
    audit = ["audit", "facts.tsv", "--recipe", "simple.py", "--out", "audit", *quick]
    first = run(*audit)
    assert first["recipe"] == "simple.py"
    told = run("explain", "audit", *fact, "--device", "cpu")
    assert told["fact"] == list(fact)
    # So few facts are no self-test: nothing is promised.
    assert first["verdict"] == "order"
    assert told["probability"] is None
    assert run("recipes", "show", "simple.py")["name"] == "simple"


def test_a_changed_file_is_not_executed_by_the_commands_unless_trusted(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    npugraph.fit(facts(), "simple.py", SMALL, "run")
    (work / "simple.py").write_text("raise RuntimeError('executed')\n")
    code, out, err = command(monkeypatch, capsys, "evaluate", "run")
    assert code == 2
    assert out == ""
    assert "simple.py has changed since run was made, and was not executed" in err
    assert "--trust-recipe" in err
    assert err.count("\n") == 1
    (work / "simple.py").write_text(BLOCKS[0] + "# changed\n")
    for words in (
        ["evaluate", "run"],
        ["predict", "run", "--head", "p1", "--relation", "knows"],
        ["score", "run", "facts.tsv", "--out", "scored.tsv"],
        ["explain", "run", "p1", "knows", "p2"],
    ):
        assert command(monkeypatch, capsys, *words, "--device", "cpu")[0] == 2
        trusted = [*words, "--device", "cpu", "--trust-recipe"]
        assert command(monkeypatch, capsys, *trusted)[0] == 0


def test_a_file_with_an_objective_of_its_own(work: Path) -> None:
    (work / "margin.py").write_text(BLOCKS[-1], encoding="utf-8")
    settings = {**SMALL, "d": 16, "epochs": 40, "learning_rate": 0.05}
    fitted = npugraph.fit(facts(), "margin.py", settings, "run")
    assert fitted.recipe == "squared-margin"
    losses = [record["loss"] for record in fitted.metrics]
    assert losses[-1] < 0.5 * losses[0]
    assert npugraph.evaluate("run", device="cpu")["filters"]["clean"]["mrr"] > 0


# From Python


def test_by_path_and_by_object(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(work))
    by_path = npugraph.fit(facts(), work / "simple.py", SMALL, "by-path")
    recipe = importlib.import_module("simple").RECIPE
    by_object = npugraph.fit(facts(), recipe, SMALL, "by-object")
    assert by_path.recipe == by_object.recipe == "simple"
    for run, kind in (("by-path", "file"), ("by-object", "object")):
        assert origin_of(run) == {**origin_of("by-path"), "kind": kind}
        loaded = npugraph.load(run, "cpu")
        for name, weights in by_path.system.state_dict().items():
            assert torch.equal(weights, loaded.system.state_dict()[name])
    del sys.modules["simple"]
    exec(compile(BLOCKS[1], str(PAGE), "exec"), {})
    assert origin_of("runs/from-python")["kind"] == "object"
    del sys.modules["simple"]


def test_an_object_without_a_file_must_be_passed(work: Path) -> None:
    recipe = dataclasses.replace(get_recipe("simple.py"), name="made here")
    npugraph.fit(facts(), recipe, SMALL, "run")
    assert origin_of("run") == {"kind": "object", "path": None, "name": None, "sha256": None}
    with pytest.raises(RunError, match=r"'made here'.*in no file.*load\(folder, recipe=RECIPE\)"):
        npugraph.load("run")
    assert npugraph.load("run", "cpu", recipe=recipe).recipe == "made here"
    with pytest.raises(RunError, match="made by recipe 'made here', not 'simple'"):
        npugraph.load("run", recipe="simple.py")


def test_a_changed_file_and_one_that_is_gone(work: Path) -> None:
    npugraph.fit(facts(), "simple.py", SMALL, "run")
    change(work / "simple.py")
    with pytest.raises(RunError, match="has changed since run was made"):
        npugraph.load("run")
    assert npugraph.load("run", "cpu", trust=True).recipe == "simple"
    with pytest.raises(RunError, match="begun with another version of the recipe 'simple'"):
        npugraph.fit(facts(), "simple.py", SMALL, "run", resume=True)
    (work / "simple.py").rename(work / "moved.py")
    with pytest.raises(RunError, match=r"the recipe file .*simple\.py, which is gone"):
        npugraph.load("run", trust=True)
    assert npugraph.load("run", "cpu", recipe="moved.py").recipe == "simple"


def test_an_audit_goes_on_with_a_recipe_file(work: Path) -> None:
    settings = {"recipe": "simple.py", "folds": 2, "missing": 5, "explained": 0, "device": "cpu"}
    changes = {"epochs": 1, "d": 4}
    first = npugraph.audit(facts(), settings, changes, out="audit")
    again = npugraph.audit(facts(), settings, changes, out="audit")
    assert first.collected.probability.tolist() == again.collected.probability.tolist()
    assert origin_of("audit/folds/fold-1")["path"] == str(work / "simple.py")


# An installed package


def install(site: Path) -> Path:
    """Put a package with an entry point on a path, as an installer does."""
    package, info = site / "my_package", site / "my_package-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text("")
    (package / "simple.py").write_text(BLOCKS[0], encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    snippet = re.search(r"```toml\n.*?\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert snippet is not None
    points = snippet[1].replace('"', "")
    (info / "entry_points.txt").write_text(f"[npugraph.recipes]\n{points}")
    return package / "simple.py"


def test_by_an_entry_point(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert "simple" not in installed()
    with pytest.raises(SettingsError, match="no recipe 'simple'"):
        get_recipe("simple")
    file = install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    npugraph.fit(facts(), "simple", SMALL, "run")
    assert origin_of("run")["kind"] == "entry point"
    assert origin_of("run")["path"] == str(file)
    assert command(monkeypatch, capsys, "evaluate", "run", "--device", "cpu")[0] == 0
    assert "my_package.simple:RECIPE" in command(monkeypatch, capsys, "recipes", "list")[1]
    score = npugraph.score("run", facts(), device="cpu")
    assert score["score"].null_count == 0
    change(file)
    with pytest.raises(RunError, match="has changed since run was made"):
        npugraph.load("run")
    assert npugraph.load("run", "cpu", trust=True).recipe == "simple"
    monkeypatch.undo()
    monkeypatch.chdir(work)
    with pytest.raises(RunError, match="'simple' of an installed package; install"):
        npugraph.load("run")
    for name in ("my_package", "my_package.simple"):
        sys.modules.pop(name, None)


# Mistakes in a file, and folders of before


@pytest.mark.parametrize(
    ("text", "spec", "sentence"),
    [
        ("x = 1\n", "own.py", "its variable RECIPE is no Recipe"),
        ("import nothing_like_it\n", "own.py", "cannot be executed .ModuleNotFoundError"),
        ("def (\n", "own.py", "cannot be executed .SyntaxError"),
        ("RECIPE = 3\n", "own.py", "its variable RECIPE is no Recipe"),
        (BLOCKS[0], "own.py:OTHER", "its variable OTHER is no Recipe. It has: RECIPE"),
        (BLOCKS[0], "missing.py", "missing.py: there is no such recipe file"),
        (BLOCKS[0], "own.pyx", "There is no recipe 'own.pyx'"),
    ],
)
def test_a_mistake_is_a_sentence(work: Path, text: str, spec: str, sentence: str) -> None:
    (work / "own.py").write_text(text)
    with pytest.raises(SettingsError, match=sentence) as caught:
        get_recipe(spec)
    assert "\n" not in str(caught.value)


def test_another_variable_may_be_named(work: Path) -> None:
    (work / "own.py").write_text(BLOCKS[0].replace("RECIPE =", "OTHER ="))
    assert find_recipe("own.py:OTHER").origin.name == "OTHER"


def test_a_run_folder_of_before_knows_the_name_alone(work: Path) -> None:
    npugraph.fit(facts(), "distmult", SMALL, "run")
    assert origin_of("run")["kind"] == "built-in"
    path = work / "run" / "settings.json"
    record = json.loads(path.read_text())
    del record["recipe_origin"], record["graph"]["left_out"]
    path.write_text(json.dumps(record))
    assert npugraph.load("run", "cpu").recipe == "distmult"
    record["recipe"] = "distmul"
    path.write_text(json.dumps(record))
    with pytest.raises(SettingsError, match="Did you mean 'distmult'"):
        npugraph.load("run")
    record["recipe_origin"] = {"kind": "elsewhere", "place": 3}
    path.write_text(json.dumps(record))
    with pytest.raises(RunError, match="not clear where its recipe 'distmul' is from"):
        npugraph.load("run")
