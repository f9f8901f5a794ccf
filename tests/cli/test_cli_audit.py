"""The commands audit and explain, as a user gives them."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from audit_samples import WRONG, rows
from cli_calls import npugraph, refusal
from npugraph import auditing
from npugraph.cli import audit as commands
from npugraph.data.perturb import Truth

QUICK = ("--set", "d=8", "--set", "epochs=2", "--set", "search=false", "--device", "cpu")
SMALL = (*QUICK, "--folds", "2", "--budget", "12", "--missing", "20", "--set", "explained=3")


def lines(path: Path) -> list[tuple[str, ...]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [tuple(line) for line in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("input") / "facts.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def audited(facts: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    out = tmp_path_factory.mktemp("audited") / "audit"
    before = facts.read_bytes(), facts.stat().st_mtime_ns
    protect = out.parent / "protect.tsv"
    protect.write_text("\t".join(rows()[5]) + "\nperson 001\tknows\tperson 002\n", encoding="utf-8")
    done = npugraph("audit", facts, "--out", out, "--protect", protect, *SMALL, "--beta", "0.9")
    assert (facts.read_bytes(), facts.stat().st_mtime_ns) == before, "The input was touched."
    return out, done


def test_help() -> None:
    for command in ("audit", "explain"):
        text = npugraph(command, "--help").output
        assert f"Example: npugraph {command}" in text
        assert "--json" in text


# A file of one's own


def test_what_is_said(audited: tuple[Path, Result]) -> None:
    out, done = audited
    assert "1 of the 2 facts to protect is not in the graph" in done.stderr
    assert "plan: 198 facts, judged by entity vectors (embedding), counts of roles" in done.stderr
    assert "note: 4 repeated facts." in done.stderr
    assert done.stdout.startswith("Verdict: order. Only 9 facts could be planted")
    assert "facts are wrong (90%" not in done.stdout
    assert "suspects.tsv: 12 facts to review; how many of them are wrong cannot be" in done.stdout
    assert "missing.tsv: 20 facts that are not stored" in done.stdout
    assert f"open {out / 'report.html'} in a browser" in done.stdout
    assert "of the 6 planted" not in done.stdout


def test_wrong_facts_at_one_end_are_told(data_root: Path, tmp_path: Path) -> None:
    noisy, facts = tmp_path / "noisy", tmp_path / "facts.tsv"
    npugraph("perturb", "umls", "--noise", "wrong-tail", "--out", noisy)
    parts = [(noisy / f"{part}.tsv").read_text(encoding="utf-8") for part in ("train", "valid")]
    facts.write_text("".join(parts), encoding="utf-8")
    fast = ("--set", "d=64", "--set", "epochs=15", "--set", "n3=0.03", "--set", "missing=0")
    done = npugraph("audit", facts, "--out", tmp_path / "audit", "--device", "cpu", *fast)
    assert "Most wrong facts seem to be wrong at the tail." in done.stdout
    page = (tmp_path / "audit" / "report.html").read_text(encoding="utf-8")
    assert "wrong at the <strong>tail</strong>" in page
    planted = {tuple(row[:3]) for row in lines(noisy / "truth.tsv") if row[3] == "planted"}
    listed = [tuple(row[:3]) for row in lines(tmp_path / "audit" / "suspects.tsv")[1:]]
    assert len(listed) == 100
    assert sum(fact in planted for fact in listed) > 80


def test_cleaned_and_quarantine_are_the_rows_of_the_file(audited: tuple[Path, Result]) -> None:
    out, _ = audited
    kept, taken = lines(out / "cleaned.tsv"), lines(out / "quarantine.tsv")
    assert Counter(kept) + Counter(taken) == Counter(rows())
    # In the order of the file, not in that of any parts.
    gone = set(taken)
    assert kept == [row for row in rows() if row not in gone]


def test_protected_facts_are_in_no_list(audited: tuple[Path, Result]) -> None:
    out, _ = audited
    for name in ("suspects.tsv", "quarantine.tsv"):
        assert rows()[5] not in {line[:3] for line in lines(out / name)}


def test_the_same_command_again_trains_nothing_and_says_the_same(
    audited: tuple[Path, Result], facts: Path
) -> None:
    out, _ = audited
    before = {path.name: path.read_bytes() for path in out.glob("*.tsv")}
    models = {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    done = npugraph(
        "audit", facts, "--out", out, "--protect", out.parent / "protect.tsv", *SMALL,
        "--beta", "0.9", "--json",
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert result["out"] == str(out)
    assert result["verdict"] == "order"
    assert result["wrong_share"] is None
    assert "planted" not in result
    assert before == {path.name: path.read_bytes() for path in out.glob("*.tsv")}
    assert models == {path: path.stat().st_mtime_ns for path in models}
    # Of two folds: the best and the last weights, and what was judged.
    assert len(models) == 6


def test_other_folds_into_the_same_folder_are_refused(
    audited: tuple[Path, Result], facts: Path
) -> None:
    said = refusal("audit", facts, "--out", audited[0], *SMALL, "--folds", "3")
    assert "holds an audit with folds=2, not folds=3" in said


# Explanations


def test_explain_takes_the_system_that_never_saw_the_fact(audited: tuple[Path, Result]) -> None:
    import pyarrow.parquet

    from npugraph.fitting import load

    out, _ = audited
    posterior = pyarrow.parquet.read_table(out / "posterior.parquet").to_pylist()
    for fold in (1, 2):
        row = next(row for row in posterior if row["fold"] == fold and row["collected"])
        fact = row["head"], row["relation"], row["tail"]
        found = json.loads(npugraph("explain", out, *fact, "--device", "cpu", "--json").stdout)
        assert tuple(found["fact"]) == fact
        assert found["stored"]
        fitted = load(out / "folds" / f"fold-{fold}", "cpu")
        ids = torch.tensor([found["ids"]])
        held_out = fitted.splits.test
        assert bool(held_out.index().contains(ids)), "The system was trained on the fact."
        expected = float(fitted.system.score_as(ids, "tail"))
        assert found["scores"]["tail"] == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_explain_in_words(audited: tuple[Path, Result]) -> None:
    text = npugraph("explain", audited[0], "person 001", "knows", "国 1", "--device", "cpu").stdout
    assert text.startswith("(person 001, knows, 国 1)  [not stored]")
    for title in ("What speaks for it", "What speaks against it", "How usual", "What scores"):
        assert title in text


def test_explain_a_run_of_fit(facts: Path, tmp_path: Path) -> None:
    npugraph("fit", facts, "--out", tmp_path / "run", *QUICK[:4], "--set", "device=cpu")
    text = npugraph("explain", tmp_path / "run", *rows()[0], "--device", "cpu").stdout
    assert text.startswith(f"({', '.join(rows()[0])})  [")


def test_explain_says_what_is_wrong(audited: tuple[Path, Result], tmp_path: Path) -> None:
    out, _ = audited
    said = refusal("explain", out, "persn 001", "knows", "person 002")
    assert "No entity is called 'persn 001' in this graph. Did you mean 'person 0" in said
    assert "No relation is called 'know'" in refusal("explain", out, "hermit", "know", "hermit")
    assert "not a run folder" in refusal("explain", tmp_path, "a", "b", "c")


def test_explain_prints_the_probability_of_the_audit(audited: tuple[Path, Result]) -> None:
    import pyarrow.parquet

    out, _ = audited
    row = pyarrow.parquet.read_table(out / "posterior.parquet").to_pylist()[7]
    fact = row["head"], row["relation"], row["tail"]
    found = json.loads(npugraph("explain", out, *fact, "--device", "cpu", "--json").stdout)
    # So small a graph has no reliable verdict.
    for name in ("probability", "low", "high"):
        assert found[name] is row[name] is None
    text = npugraph("explain", out, *fact, "--device", "cpu").stdout
    assert "Probability of being true" not in text


def test_explain_prints_the_probability_of_a_recipe_that_has_one(
    facts: Path, tmp_path: Path
) -> None:
    npugraph(
        "fit", facts, "--out", tmp_path / "run", "--recipe", "npugraph/bilinear",
        "--set", "epochs=1", "--set", "d=8", "--set", "device=cpu",
    )  # fmt: skip
    done = npugraph("explain", tmp_path / "run", *rows()[0], "--device", "cpu", "--json")
    found = json.loads(done.stdout)
    assert 0 <= found["probability"] <= 1
    assert found["low"] is found["high"] is None


def test_names_that_hold_what_was_typed_are_suggested(audited: tuple[Path, Result]) -> None:
    said = refusal("explain", audited[0], "STADT 11", "knows", "hermit")
    assert "No entity is called 'STADT 11' in this graph. Did you mean 'Großstadt 11'" in said


# Settings


def test_a_setting_that_both_have_reaches_the_recipe_and_the_option_the_audit() -> None:
    words = ["beta=0.7", "missing=5", "one_ended=3", "dropout=0.25"]
    settings, changes = commands._settings(
        {"recipe": "npugraph", "beta": 0.95, "alpha": None, "seed": 4}, words
    )
    assert changes == {"beta": "0.7", "dropout": "0.25"}
    assert (settings.beta, settings.alpha, settings.missing, settings.seed) == (0.95, None, 5, 4)
    assert settings.thresholds.one_ended == 3
    # Where the recipe does not have it, the audit's own is meant.
    settings, changes = commands._settings({"recipe": None}, ["beta=0.9", "seed=3", "d=8"])
    assert (settings.beta, settings.seed, changes) == (0.9, 3, {"d": "8"})
    assert settings.recipe == "complex-n3"
    told = npugraph("audit", "--help").output.replace("│", " ")
    assert "--set beta= is the recipe's and --beta the audit's" in " ".join(told.split())


def test_settings_and_thresholds_are_shown() -> None:
    done = npugraph("audit", "--show-settings", "--json", "--set", "folds=3", "--set", "widest=0.2")
    shown = json.loads(done.stdout)
    assert shown["settings"]["folds"] == 3
    assert shown["settings"]["missing"] is None
    # An option wins over --set.
    both = ("--missing", "7", "--set", "missing=5")
    done = npugraph("audit", "--show-settings", "--json", *both)
    assert json.loads(done.stdout)["settings"]["missing"] == 7
    assert shown["thresholds"]["widest"] == 0.2
    text = npugraph("audit", "--show-settings").stdout
    assert "one_ended" in text
    assert "facts a person is willing to review" in text


def test_long_names_are_cut_where_they_are_shown(tmp_path: Path) -> None:
    name = "x" * 100_000
    path = tmp_path / "facts.tsv"
    named = [tuple(name if word == "国 1" else word for word in row) for row in rows()]
    path.write_text("".join("\t".join(row) + "\n" for row in named), encoding="utf-8")
    out = tmp_path / "out"
    done = npugraph("audit", path, "--out", out, *SMALL)
    assert max(map(len, done.stdout.splitlines())) < 400
    assert (out / "report.html").stat().st_size < 2_000_000
    assert any(name in row for row in lines(out / "cleaned.tsv"))


# The demo


def test_the_demo_says_how_many_planted_facts_were_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The truth stays out of reach of the audit: it is made up, and opened, after the audit."""
    events: list[str] = []

    class Sealed(Truth):
        """A truth that notes who opens it."""

        def __getattribute__(self, name: str) -> Any:
            if name in ("planted", "removed"):
                events.append("opened")
            return super().__getattribute__(name)

    planted, run = commands._planted, auditing.audit

    def sealed(seed: int) -> Any:
        splits, truth = planted(seed)
        assert splits.truth is None
        made = Sealed(truth.planted, truth.removed)
        events.clear()
        return splits, made

    def watched(graph: Any, *args: Any, **kwargs: Any) -> Any:
        events.append("begun")
        # Nothing that is handed over tells planted facts from others.
        assert graph.label is None
        assert graph.confidence is None
        assert kwargs["protected"] is None
        found = run(graph, *args, **kwargs)
        events.append("ended")
        return found

    monkeypatch.setattr(commands, "_planted", sealed)
    monkeypatch.setattr(auditing, "audit", watched)
    out = tmp_path / "demo"
    done = npugraph(
        "audit", "--out", out, "--set", "epochs=4", "--set", "d=16", "--set", "search=false",
        "--set", "missing=30", "--set", "explained=3", "--folds", "2", "--device", "cpu",
    )  # fmt: skip
    assert (
        "194 wrong facts were planted in the bundled graph; the audit is not told." in done.stderr
    )
    assert "of the 194 planted facts are among the 100 suspects." in done.stdout
    assert events[0] == "begun"
    assert events.index("ended") == 1, "The truth was opened before the audit was over."
    assert "opened" in events[2:]
    # Counted here once more, from what was written.
    graph, truth = planted(0)
    marks = {tuple(row.values()) for row in graph.with_facts(truth.planted).to_table().to_pylist()}
    listed = [line[:3] for line in lines(out / "suspects.tsv")[1:]]
    hits = sum(fact in marks for fact in listed)
    assert f"{hits} of the 194 planted facts" in done.stdout
    # Chance would find four or five.
    assert hits > 15
    assert '"mark":"planted"' in (out / "report.html").read_text(encoding="utf-8")
    everything = Counter(lines(out / "cleaned.tsv")) + Counter(lines(out / "quarantine.tsv"))
    assert marks <= set(everything)
    assert sum(everything.values()) == len(graph)


# Mistakes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Say where to write the audit: --out DIR."),
        (("--out", "x", "--recipe", "complx-n3"), "Did you mean 'complex-n3'?"),
        (("--out", "x", "--set", "epoch=3"), "no setting 'epoch'. Did you mean 'epochs'?"),
        (("--out", "x", "--set", "buget=3"), "no setting 'buget'. Did you mean 'budget'?"),
        (("--out", "x", "--set", "epochs=few"), "epochs='few' is not a whole number."),
        (("--out", "x", "--set", "compared=0"), "compared=0 is too small; the least is 2."),
        (("--out", "x", "--set", "epochs"), "'epochs' is not of the form name=value."),
        (("--out", "x", "--views", "roles"), "take one of embedding and path, too."),
        (("--out", "x", "--beta", "1.5"), "beta=1.5 must lie between 0 and 1"),
        (("--out", "x", "no-such-file.tsv"), "neither a file, nor a folder, nor a known graph"),
        (("--out", __file__), "is a file; give a folder."),
    ],
    ids=lambda value: "",
)
def test_mistakes_are_sentences_before_any_work(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refusal("audit", *words)
    assert list(tmp_path.iterdir()) == []


def test_a_protected_fact_of_unknown_names_is_refused(facts: Path, tmp_path: Path) -> None:
    protect = tmp_path / "right.tsv"
    protect.write_text("person 001\tknows\tpersn 002\n", encoding="utf-8")
    said = refusal("audit", facts, "--out", tmp_path / "out", "--protect", protect, *SMALL)
    assert said.startswith(f"--protect {protect}: No entity is called 'persn 002' in this graph.")
    said = refusal("audit", facts, "--out", tmp_path / "out", "--protect", tmp_path / "gone.tsv")
    assert said.startswith(f"--protect {tmp_path / 'gone.tsv'}: no such file")
    protect.write_text("", encoding="utf-8")
    said = refusal("audit", facts, "--out", tmp_path / "out", "--protect", protect)
    assert said.startswith(f"--protect {protect}: the file is empty; ")
    assert not (tmp_path / "out").exists()


def test_columns_of_evidence_may_stand_with_commas_between() -> None:
    for words in (("--evidence", "llm,src"), ("--evidence", "llm", "--evidence", "src")):
        shown = npugraph("audit", *words, "--show-settings", "--json").stdout
        assert json.loads(shown)["settings"]["evidence"] == ["llm", "src"]


def test_a_graph_that_is_not_there_is_answered_with_the_nearest_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_facts.tsv").write_text("a\tr\tb\n", encoding="utf-8")
    said = refusal("audit", "my_fact.tsv", "--out", "x")
    assert said.endswith("nor a known graph. Did you mean 'my_facts.tsv'?")
    said = refusal("audit", "zzz.tsv", "--out", "x")
    assert said.endswith("nor a known graph; 'npugraph datasets list' shows the known ones.")


def test_a_small_graph_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "few.tsv"
    path.write_text("".join(f"a{i}\tr\tb{i}\n" for i in range(20)), encoding="utf-8")
    said = refusal("audit", path, "--out", tmp_path / "out", *SMALL)
    assert "'few' holds 20 distinct facts" in said
    assert "needs at least 50" in said


def test_a_mistake_is_exit_code_2_and_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "npugraph", "audit"],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: Say where to write the audit: --out DIR.\n"


def test_answers_are_used_and_told(facts: Path, tmp_path: Path) -> None:
    answers, out = tmp_path / "answers.tsv", tmp_path / "audit"
    lines_of = ["head\trelation\ttail\tanswer\tdrawn"]
    lines_of += ["\t".join((*row, "true", "random")) for row in rows()[:30]]
    lines_of += ["\t".join((*WRONG[0], "false", "random")), "nobody\tknows\tperson 001\tfalse\t"]
    answers.write_text("\n".join(lines_of) + "\n", encoding="utf-8")
    done = npugraph("audit", facts, "--out", out, "--answers", answers, *SMALL)
    assert "note: The probabilities were recalibrated by 31 answers." in done.stdout
    assert "1 answer is about what is not stored, the first about (nobody" in done.stdout
    assert "About 3.2% of the 198 facts are wrong (90% interval 0.5% to" in done.stdout
    figures = json.loads((out / "audit.json").read_text(encoding="utf-8"))
    assert figures["wrong_share_from"] == "answers"
    assert figures["answers"]["behind_share"] == 31
    quarantined = {tuple(row[:3]) for row in lines(out / "quarantine.tsv")}
    assert WRONG[0] in quarantined
    again = npugraph("audit", facts, "--out", out, "--answers", answers, *SMALL, "--json")
    assert json.loads(again.stdout)["answers"] == figures["answers"]
    # Other wrong facts need other trainings.
    answers.write_text(
        "\n".join(lines_of).replace("false\trandom", "true\trandom"), encoding="utf-8"
    )
    said = refusal("audit", facts, "--out", out, "--answers", answers, *SMALL)
    assert "holds an audit that knew of other wrong facts" in said
    answers.write_text("head\trelation\ttail\tanswer\na\tb\tc\tperhaps\n", encoding="utf-8")
    said = refusal("audit", facts, "--out", tmp_path / "new", "--answers", answers, *SMALL)
    assert "line 2: the answer 'perhaps' must be true, false or unsure" in said
