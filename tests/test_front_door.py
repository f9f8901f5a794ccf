"""The Python front door: every form of input, short results, and mistakes that are sentences."""

from __future__ import annotations

import pkgutil
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import npugraph
from npugraph.data.io import write_table
from npugraph.errors import NpugraphError
from npugraph.explaining import Meant
from npugraph.report import Correction

COLUMNS = ["head", "relation", "tail"]
OTHER = npugraph.PerturbSettings()
SMALL = {"d": 8, "epochs": 2, "device": "cpu"}
FUNCTIONS = (
    "load_graph", "fit", "load", "evaluate", "predict", "score", "perturb", "tune", "audit",
    "explain", "calibrate",
)  # fmt: skip


def facts(people: int = 20) -> list[tuple[str, str, str]]:
    """People who know the next ones, both ways."""
    pairs = [(i, (i + step) % people) for i in range(people) for step in (1, 2, 3)]
    names = [(f"person {i}", f"person {j}") for i, j in pairs]
    return [(a, "knows", b) for a, b in names] + [(b, "known_by", a) for a, b in names]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The run folder of a small system, as a str."""
    out = str(tmp_path_factory.mktemp("runs") / "x")
    npugraph.fit(facts(), "distmult", out=out, settings=SMALL)
    return out


# What is there


def test_the_functions_are_listed_and_no_module_hides_one() -> None:
    assert set(FUNCTIONS) <= set(dir(npugraph))
    modules = {module.name for module in pkgutil.iter_modules(npugraph.__path__)}
    assert not modules & set(npugraph.__all__)
    for name in npugraph.__all__:
        assert getattr(npugraph, name) is not None
    for name in FUNCTIONS:
        assert callable(getattr(npugraph, name))
        assert getattr(npugraph, name).__doc__


def test_all_names_have_a_home() -> None:
    homes = [name for names in npugraph._HOME.values() for name in names]
    assert sorted([*homes, "__version__"]) == sorted(npugraph.__all__)
    with pytest.raises(AttributeError, match="no attribute 'fits'"):
        _ = npugraph.fits


# From facts to answers


def test_fit_takes_a_name_a_str_and_a_dict(folder: str) -> None:
    assert (Path(folder) / "model.safetensors").is_file()
    fitted = npugraph.load(folder, "cpu")
    assert fitted.recipe == "distmult"
    assert fitted.settings.epochs == 2
    again = npugraph.fit(
        pd.DataFrame(facts(), columns=["head", "relation", "tail"]), "distmult", SMALL
    )
    found = npugraph.fit(facts(), npugraph.RECIPES["distmult"], type(fitted.settings)(**SMALL))
    for other in (again, found):
        for name, weights in fitted.system.state_dict().items():
            assert torch.equal(weights, other.system.state_dict()[name])


def test_a_run_and_its_folder_give_the_same(folder: str) -> None:
    fitted = npugraph.load(folder, "cpu")
    assert npugraph.load(fitted) is fitted
    by_folder = npugraph.evaluate(Path(folder), "raw", "valid", by="relation", device="cpu")
    by_object = npugraph.evaluate(fitted, ["raw"], "valid", by=["relation"])
    assert by_folder["filters"] == by_object["filters"]
    assert by_folder["filters"]["raw"]["mrr"] > 0
    assert "by_relation" in by_folder["filters"]["raw"]
    asked = {"head": "person 1", "relation": "knows"}
    answers = npugraph.predict(folder, **asked, k=3, device="cpu")
    assert answers.equals(npugraph.predict(fitted, **asked, k=3))
    assert answers.column_names == ["rank", "label", "score", "known"]
    new = npugraph.predict(fitted, tail="person 1", relation="knows", k=50, only_new=True)
    assert not any(new["known"].to_pylist())


def test_score_takes_every_form(folder: str, tmp_path: Path) -> None:
    rows = [*facts()[:3], ("person 1", "knows", "nobody")]
    columns = dict(
        zip(("head", "relation", "tail"), map(list, zip(*rows, strict=True)), strict=True)
    )
    file = tmp_path / "facts.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    forms = [rows, columns, pa.table(columns), pd.DataFrame(columns), file, str(file)]
    tables = [npugraph.score(folder, form, device="cpu") for form in forms]
    assert all(table.equals(tables[0]) for table in tables)
    expected = ["head", "relation", "tail", "score", "probability", "collected"]
    assert tables[0].column_names == expected
    assert tables[0]["score"].null_count == 1
    fitted = npugraph.load(folder, "cpu")
    ids = npugraph.score(fitted, fitted.splits.train.facts[:2])
    assert ids["collected"].to_pylist() == [True, True]


def test_perturb_takes_facts_and_a_dict() -> None:
    splits, truth = npugraph.perturb(facts(), {"rate": 0.5, "seed": 1})
    same, _ = npugraph.perturb(npugraph.load_graph(facts()), npugraph.PerturbSettings(0.5, seed=1))
    assert len(truth.planted) > 0
    assert torch.equal(splits.train.facts, same.train.facts)


def test_tune_takes_facts(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    fixed = {"epochs": 1, "d": 4, "device": "cpu"}
    tuned = npugraph.tune(facts(), "distmult", str(tmp_path / "t"), 1, changes=fixed)
    assert tuned.best.epochs == 1
    assert len(repr(tuned).splitlines()) < 12


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[npugraph.Audit, Path]:
    settings = {"folds": 2, "missing": 5, "explained": 1, "search": False, "device": "cpu"}
    out = tmp_path_factory.mktemp("audits") / "a"
    done = npugraph.audit(
        facts(), settings, {"epochs": 2, "d": 8}, out=str(out), protected=facts()[:1]
    )
    done.write(str(out))
    return done, out


def test_audit_takes_facts_and_a_dict(found: tuple[npugraph.Audit, Path], tmp_path: Path) -> None:
    done, _ = found
    assert done.settings.folds == 2
    assert len(done.posterior) >= len(facts())
    assert int(done.protected.sum()) == 1
    done.report(str(tmp_path / "x.html"))
    assert (tmp_path / "x.html").stat().st_size > 1000


def test_an_audit_its_folder_and_a_run_explain(
    found: tuple[npugraph.Audit, Path], folder: str
) -> None:
    done, out = found
    by_object = npugraph.explain(done, *facts()[4])
    by_folder = npugraph.explain(str(out), *facts()[4], device="cpu")
    assert by_object.stored
    assert by_object.probability == pytest.approx(by_folder.probability)
    assert by_object.supporting == by_folder.supporting
    first = [done.suspects[name][0].as_py() for name in COLUMNS]
    suspect = npugraph.explain(str(out), *first, device="cpu")
    assert suspect.remarks == npugraph.explain(done, *first).remarks
    assert suspect.said("against")[0].startswith("All evidence together makes it the most suspicio")
    proposed = [done.missing[name][0].as_py() for name in COLUMNS]
    new = npugraph.explain(str(out), *proposed, device="cpu")
    assert new.remarks == npugraph.explain(done, *proposed).remarks
    assert "most probable of" in new.said("for")[0]
    assert npugraph.explain(folder, *facts()[4], device="cpu").probability is None


def test_an_audit_says_why_it_tells_no_probability(found: tuple[npugraph.Audit, Path]) -> None:
    done, out = found
    assert done.verdict.level != "reliable", "so small a graph tells nothing"
    nobody = ("person 1", "knows", "person 1")
    for fact, said in ((facts()[4], done.verdict.why), (nobody, "the audit did not judge it")):
        by_object = npugraph.explain(done, *fact)
        by_folder = npugraph.explain(str(out), *fact, device="cpu")
        assert by_object.probability is None
        assert said in by_object.untold
        assert by_object.untold == by_folder.untold
        assert f"No probability is told. {by_object.untold}" in by_folder.to_text()


@pytest.mark.parametrize("stored", [True, False])
def test_an_audit_explains_a_suspect_with_its_own_correction_alone(
    found: tuple[npugraph.Audit, Path], tmp_path: Path, stored: bool
) -> None:
    done, out = found
    told = replace(done)
    fix = Correction("tail", "person 9", stored)
    told.__dict__["corrections"] = (fix, *[None] * (len(done.suspect_rows) - 1))
    copy = shutil.copytree(out, tmp_path / "copy")
    write_table(told.suspects, copy / "suspects.tsv", header=True)
    rows = told.suspects.to_pylist()
    first, second = ([row[name] for name in COLUMNS] for row in rows[:2])
    for one in (told, copy):
        meant = npugraph.explain(one, *first).meant
        assert meant == Meant("tail", (first[0], first[1], "person 9"), stored)
        other = npugraph.explain(one, *second)
        assert other.meant is None
        assert other.corrections == ()
        assert "Perhaps meant" not in other.to_text()


def test_calibrate_is_the_three_calls_in_one() -> None:
    rng = np.random.default_rng(1)
    true, false = rng.normal(4, 1, 4000), rng.normal(0, 1, 9000)
    own = npugraph.calibrate(np.append(true, false[:500]), false[500:])
    beta = own.priors.beta
    assert beta.low < 4000 / 4500 < beta.high
    assert own.collected.column_names == ["score", "probability", "low", "high"]
    assert len(own.collected) == 4500
    assert len(own.pool) == 8500
    chance = own.collected["probability"].to_numpy()
    assert chance[:4000].mean() > 0.95
    assert chance[4000:].mean() < 0.3
    assert (own.collected["low"].to_numpy() <= chance).all()
    known = npugraph.calibrate(true.tolist(), list(false), beta=0.5)
    assert known.priors.beta.value == 0.5
    assert "identifiable" in repr(known)


# How results show themselves


def test_results_have_a_short_repr_and_html(
    folder: str, found: tuple[npugraph.Audit, Path]
) -> None:
    fitted = npugraph.load(folder, "cpu")
    graph = npugraph.load_graph([("<b>x</b>", "<i>r</i>", "y" * 500)])
    results = [
        fitted, fitted.splits, npugraph.evaluate(fitted), found[0], found[0].priors, graph,
        graph.entities, graph.relations, npugraph.calibrate([1.0, 2.0], [0.0, 1.0]),
        npugraph.explain(fitted, *facts()[4]),
    ]  # fmt: skip
    for result in results:
        text = repr(result)
        assert len(text.splitlines()) <= 8, text
        assert max(map(len, text.splitlines())) < 200, text
        page = result._repr_html_()
        assert page.count("<table") == page.count("</table>") == 1
        assert "<b>" not in page
        assert "<i>" not in page


# Mistakes

VALUES = (None, 3, object(), [], {}, "no/such/path", Path("no/such/path"), np.zeros(3), b"x", True)
FRAME = pd.DataFrame({"a": ["x"], "b": ["y"]})
Call = Callable[[str, Any], object]
CALLS: dict[str, Call] = {
    "load_graph": lambda run, value: npugraph.load_graph(value),
    "fit graph": lambda run, value: npugraph.fit(value, "distmult", SMALL),
    "fit recipe": lambda run, value: npugraph.fit(facts(), value, SMALL),
    "load": lambda run, value: npugraph.load(value),
    "evaluate run": lambda run, value: npugraph.evaluate(value),
    "evaluate part": lambda run, value: npugraph.evaluate(run, part=value),
    "evaluate by": lambda run, value: npugraph.evaluate(run, by=[value]),
    "evaluate filters": lambda run, value: npugraph.evaluate(run, [value]),
    "predict run": lambda run, value: npugraph.predict(value, head="person 1", relation="knows"),
    "predict head": lambda run, value: npugraph.predict(run, head=value, relation="knows"),
    "predict relation": lambda run, value: npugraph.predict(run, head="person 1", relation=value),
    "score run": lambda run, value: npugraph.score(value, facts()),
    "score facts": lambda run, value: npugraph.score(run, value),
    "perturb": lambda run, value: npugraph.perturb(value),
    "tune graph": lambda run, value: npugraph.tune(value, "distmult", Path(run) / "t", 1),
    "tune recipe": lambda run, value: npugraph.tune(facts(), value, Path(run) / "t", 1),
    "audit graph": lambda run, value: npugraph.audit(value),
    "explain run": lambda run, value: npugraph.explain(value, "a", "b", "c"),
    "explain head": lambda run, value: npugraph.explain(run, value, "knows", "person 1"),
    "calibrate": lambda run, value: npugraph.calibrate(value, [1.0, 2.0]),
    "calibrate pool": lambda run, value: npugraph.calibrate([1.0, 2.0], value),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_argument_is_a_sentence(call: str, folder: str) -> None:
    if call.startswith("tune"):
        pytest.importorskip("optuna")
    for value in VALUES:
        if call.startswith("calibrate") and isinstance(value, np.ndarray):
            continue  # three equal scores are scores
        with pytest.raises(NpugraphError) as caught:
            CALLS[call](folder, value)
        assert "\n" not in str(caught.value), value
        assert str(caught.value).endswith((".", "?")), caught.value


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda run: npugraph.fit(facts(), "distmul"), "Did you mean 'distmult'"),
        (lambda run: npugraph.fit(facts(), "distmult", {"epoch": 2}), "Did you mean 'epochs'"),
        (lambda run: npugraph.fit(facts(), "distmult", {"epochs": "two"}), "not a whole number"),
        (lambda run: npugraph.fit(facts(), "distmult", {3: 4}), "no setting 3"),
        (lambda run: npugraph.fit(facts(), "distmult", 3), r"not 3 \(int\)"),
        (
            lambda run: npugraph.fit(facts(), "distmult", npugraph.PerturbSettings()),
            "DistMultSettings",
        ),
        (lambda run: npugraph.fit(facts(), "distmult", SMALL, 3), "run folder is a path"),
        (lambda run: npugraph.fit(facts(), "distmult", SMALL, ""), "run folder is a path"),
        (lambda run: npugraph.fit(FRAME, "distmult"), "has the columns a, b"),
        (lambda run: npugraph.fit(facts(), "no.py"), "no such recipe file"),
        (lambda run: npugraph.audit(facts(), {"fold": 2}), "Did you mean 'folds'"),
        (lambda run: npugraph.audit(facts(), 3), "AuditSettings"),
        (lambda run: npugraph.audit(FRAME), "has the columns a, b"),
        (lambda run: npugraph.audit(facts(), out=3), "folder of the audit is a path"),
        (lambda run: npugraph.perturb(facts(), {"rte": 1}), "Did you mean 'rate'"),
        (lambda run: npugraph.perturb(facts(), 3), "PerturbSettings"),
        (lambda run: npugraph.predict(run, relation="knows"), "one of head and tail"),
        (lambda run: npugraph.predict(run, head="a", relation="b", k=0), "k=0 must be"),
        (lambda run: npugraph.predict(run, head="a", relation="b", k="3"), "k='3' must be"),
        (lambda run: npugraph.predict(run, head="persn 1", relation="knows"), "Did you mean"),
        (lambda run: npugraph.explain(run, "persn 1", "knows", "person 2"), "Did you mean"),
        (lambda run: npugraph.score(run, FRAME), "has the columns a, b"),
        (lambda run: npugraph.score(run, torch.tensor([[999, 0, 0]])), "An id is too large"),
        (lambda run: npugraph.evaluate(run, "cleen"), "no filter"),
        (lambda run: npugraph.load(run, "gpu9"), "is not a device"),
        (lambda run: npugraph.load(run, recipe="complex"), "was made by recipe 'distmult'"),
        (lambda run: npugraph.calibrate([1.0], [float("nan")]), "not finite"),
        (lambda run: npugraph.calibrate(["a"], [1.0]), "must hold numbers"),
        (lambda run: npugraph.calibrate([1.0], [1.0], group=[1]), "groups of both"),
    ],
)
def test_the_sentence_names_the_mistake(
    call: Callable[[str], object], sentence: str, folder: str
) -> None:
    with pytest.raises(NpugraphError, match=sentence):
        call(folder)


def test_score_refuses_the_folder_of_an_audit(found: tuple[npugraph.Audit, Path]) -> None:
    with pytest.raises(npugraph.RunError, match=r"folder of an audit.*posterior\.parquet"):
        npugraph.score(found[1], facts())
