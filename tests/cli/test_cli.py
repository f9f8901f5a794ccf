"""The command line through its real entry point, as a user runs it."""

import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest
import typer
from typer.testing import CliRunner

from npugraph.cli import app, main
from npugraph.cli.common import emit
from npugraph.training.run_folder import Run

FAST = ("--set", "d=8", "--set", "epochs=4", "--set", "validate_every=2", "--set", "device=cpu")


def npugraph(*words, check=True):
    """Run a command through the entry point; returns (exit code, stdout, stderr)."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    handler = signal.getsignal(signal.SIGTERM)
    with (
        patch.object(sys, "argv", ["npugraph", *map(str, words)]),
        patch.dict(os.environ, {"COLUMNS": "200"}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            signal.signal(signal.SIGTERM, handler)
    if check:
        assert code == 0, err.getvalue()
    return code, out.getvalue(), err.getvalue()


def as_json(*words):
    """Run a command with --json: stdout is exactly one JSON object."""
    out = npugraph(*words, "--json")[1]
    assert out.count("\n") == 1
    return json.loads(out)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    result = as_json("fit", "--out", folder, *FAST)
    assert result["epochs"] == 4
    assert result["graph"]["name"] == "world"
    return folder


def test_the_installed_script_is_the_same_program():
    script = Path(sys.executable).with_name("npugraph")
    if not script.exists():
        pytest.skip("npugraph is not installed beside this Python")
    shown = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == npugraph("--version")[1]


def commands(group, words=()):
    """Return every command as the words that call it."""
    inner = getattr(group, "commands", None)
    if inner is None:
        return [words]
    return [found for name, c in inner.items() for found in commands(c, (*words, name))]


@pytest.mark.parametrize("words", commands(typer.main.get_command(app)), ids=" ".join)
def test_every_command_has_help_with_an_example_and_json(words):
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert f"Example: npugraph {' '.join(words)}" in done.stdout
    assert "--json" in done.stdout


def test_the_first_page_has_an_example():
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    assert "Find the wrong and the missing facts of a knowledge graph." in shown
    assert "Example: npugraph --quiet audit" in shown


def test_json_has_null_for_what_is_no_number(capsys):
    emit("fit", {"a": math.nan, "b": [math.inf, {"c": 1.5}]}, True, lambda: None)
    printed = capsys.readouterr().out
    assert printed.endswith('"a": null, "b": [null, {"c": 1.5}]}\n')


def test_datasets():
    rows = as_json("datasets", "list")["datasets"]
    assert {"fb15k-237", "wn18", "umls"} <= {row["name"] for row in rows}
    shown = as_json("datasets", "show", "umls")
    assert (shown["entities"], shown["train"]) == (135, 5216)
    assert as_json("datasets", "show", "world")["relations"] == 14


def test_evaluate(run):
    result = as_json("evaluate", run, "--filter", "clean", "--filter", "raw", "--by", "cardinality")
    clean, raw = result["filters"]["clean"], result["filters"]["raw"]
    assert 0 < raw["mrr"] < clean["mrr"] <= 1
    assert clean["pessimistic"]["mrr"] <= clean["mrr"] <= clean["optimistic"]["mrr"]
    assert {"hits@1", "hits@3", "hits@10", "mean_rank", "amri"} <= clean.keys()
    assert sum(group["count"] for group in clean["by_cardinality"].values()) == 2 * result["facts"]
    assert clean["mrr"] == pytest.approx((clean["head"]["mrr"] + clean["tail"]["mrr"]) / 2)


def test_evaluate_is_the_same_in_tiny_chunks(run):
    whole = as_json("evaluate", run)["filters"]
    assert as_json("evaluate", run, "--memory", "1")["filters"] == whole


def test_predict_marks_known_facts_and_can_leave_them_out(run):
    asked = ("predict", run, "--head", "France", "--relation", "borders", "-k", "300")
    everything = as_json(*asked)["predictions"]
    known = {p["label"] for p in everything if p["known"]}
    assert {"Spain", "Belgium"} <= known
    scores = [p["score"] for p in everything]
    assert scores == sorted(scores, reverse=True)
    new = as_json(*asked, "--only-new")["predictions"]
    assert len(new) == 300
    assert not known & {p["label"] for p in new}
    heads = as_json("predict", run, "--tail", "France", "--relation", "borders", "-k", "3")
    assert len(heads["predictions"]) == 3


def test_a_person_gets_tables(run):
    assert "hits@10" in npugraph("evaluate", run)[1]
    shown = npugraph("predict", run, "--head", "France", "--relation", "borders")[1]
    assert "(France, borders, ?)" in shown
    assert "known" in shown


def test_long_names_are_cut_where_a_person_reads_them(tmp_path):
    long = "x" * 5000
    rows = {(f"a{i % 7}", "r", f"{long}{i % 11}") for i in range(200)}
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join("\t".join(row) + "\n" for row in sorted(rows)), encoding="utf-8")
    npugraph("fit", facts, "--out", tmp_path / "run", *FAST)
    asked = ("predict", tmp_path / "run", "--head", "a1", "--relation", "r")
    assert "x" * 81 not in npugraph(*asked)[1]
    assert any(len(p["label"]) > 5000 for p in as_json(*asked)["predictions"])


def test_perturb_then_fit_then_evaluate_both_filters(tmp_path):
    stats = as_json("perturb", "--rate", "0.3", "--seed", "0", "--out", tmp_path / "ptb")
    names = {path.name for path in (tmp_path / "ptb").iterdir()}
    assert {"train.tsv", "valid.tsv", "test.tsv", "truth.tsv", "stats.json"} <= names
    assert stats["planted"] + stats["removed"] == round(0.3 * 3843)
    fitted = as_json("fit", tmp_path / "ptb", "--out", tmp_path / "run", *FAST)
    assert fitted["graph"]["train"] == stats["train"]
    assert fitted["graph"]["entities"] == stats["entities"]
    words = ("evaluate", tmp_path / "run", "--filter", "clean", "--filter", "perturbed")
    filters = as_json(*words)["filters"]
    assert filters["clean"]["mrr"] > filters["perturbed"]["mrr"]
    (tmp_path / "ptb" / "truth.tsv").unlink()
    code, _, err = npugraph(*words, check=False)
    assert code == 2
    assert "truth" in err


def test_fit_on_a_users_own_file(tmp_path):
    rows = [f"{i % 7},likes,{(i * i) % 11 + 7},x" for i in range(60)]
    (tmp_path / "own.csv").write_text("who,what,whom,note\n" + "\n".join(rows) + "\n")
    words = ("fit", tmp_path / "own.csv", "--out", tmp_path / "run", *FAST)
    code, _, err = npugraph(*words, check=False)
    assert code == 2  # four columns without the usual names
    done = npugraph(*words, "--header", "--columns", "who,what,whom", "--json")
    assert json.loads(done[1])["graph"]["relations"] == 1
    assert "repeated facts" in done[2]


def test_npugraph_logs_its_health_and_scores_facts(tmp_path):
    npugraph("perturb", "--rate", "0.3", "--out", tmp_path / "ptb")
    more = (
        "--recipe",
        "npugraph",
        "--set",
        "hidden=8",
        "--set",
        "negatives=6",
        "--set",
        "warmup=2",
    )
    as_json("fit", tmp_path / "ptb", "--out", tmp_path / "run", *FAST, *more)
    for record in Run.open(tmp_path / "run").metrics():
        assert 0 <= record["posterior_mean"] <= 1
        assert 0 <= record["noise_auroc"] <= 1
        assert {"posterior_spread", "posterior_below_half", "label_switching"} <= record.keys()
    (tmp_path / "facts.tsv").write_text("France\tborders\tSpain\nAtlantis\tborders\tSpain\n")
    words = ("score", tmp_path / "run", tmp_path / "facts.tsv", "--out", tmp_path / "scored.tsv")
    assert as_json(*words)["unknown"] == 1
    lines = (tmp_path / "scored.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["head", "relation", "tail", "score", "probability", "collected"]
    assert [line.split("\t")[0] for line in lines[1:]] == ["France", "Atlantis"]


def test_interactions(tmp_path):
    rows = [f"u{u}\tt{t}\t#x" for u in range(4) for t in range(3)]
    (tmp_path / "log.tsv").write_text("user\titem\ttag\n" + "\n".join(rows) + "\n")
    words = ("--min-user", "2", "--min-item", "2", "--min-tag", "2")
    stats = as_json("interactions", tmp_path / "log.tsv", "--out", tmp_path / "g.tsv", *words)
    assert (stats["users"], stats["items"], stats["tags"], stats["facts"]) == (4, 3, 1, 16)
    assert len((tmp_path / "g.tsv").read_text().splitlines()) == 16


ERRORS = {
    "unknown graph": (["fit", "fb15k-238", "--out", "x"], "fb15k-237"),
    "unknown setting": (["fit", "--out", "x", "--set", "epoch=3"], "Did you mean 'epochs'"),
    "bad value": (["fit", "--out", "x", "--set", "epochs=many"], "not a whole number"),
    "out of range": (["fit", "--out", "x", "--set", "epochs=0"], "the least is 1"),
    "no equals sign": (["fit", "--out", "x", "--set", "epochs"], "name=value"),
    "unknown recipe": (["fit", "--out", "x", "--recipe", "complexn3"], "complex-n3"),
    "no out": (["fit"], "--out"),
    "no gpu": (["fit", "--out", "x", "--set", "device=cuda:99"], "device=cuda:99"),
    "no run": (["evaluate", "nowhere"], "not a run folder"),
    "bad rate": (["perturb", "--rate", "1.5", "--out", "x"], "between 0 and 1"),
    "bad noise": (["perturb", "--noise", "loud", "--out", "x"], "one-sided"),
    "share for caged": (
        ["perturb", "--noise", "caged", "--added-share", "0.5", "--out", "x"],
        "--added-share 0.5 means nothing with --noise caged",
    ),
    "unknown option": (["fit", "--outt", "x"], "--out"),
    "unknown dataset": (["datasets", "show", "wn19"], "wn18"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_users_error_is_one_sentence_and_exit_2(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, expected = ERRORS[name]
    code, out, err = npugraph(*words, check=False)
    assert code == 2
    assert out == ""
    assert expected in err
    assert "Traceback" not in err
    assert not (tmp_path / "x").exists()


def test_errors_of_a_run(run):
    for words, expected in [
        (["evaluate", run, "--filter", "cleen"], "is no filter"),
        (["evaluate", run, "--by", "colour"], "relation or cardinality"),
        (["predict", run, "--head", "Frankreich", "--relation", "borders"], "No entity"),
        (["predict", run, "--head", "France"], "Give the relation"),
        (["fit", "--out", run, *FAST], "--resume"),
    ]:
        code, _, err = npugraph(*words, check=False)
        assert code == 2
        assert expected in err
        assert "Traceback" not in err


def test_a_killed_run_resumes_to_the_same_end(tmp_path):
    more = (
        "--set",
        "d=8",
        "--set",
        "epochs=60",
        "--set",
        "validate_every=3",
        "--set",
        "device=cpu",
    )
    npugraph("fit", "--out", tmp_path / "whole", *more)
    words = [sys.executable, "-m", "npugraph", "fit", "--out", str(tmp_path / "cut"), *more]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    log = tmp_path / "cut" / "metrics.jsonl"
    while process.poll() is None and not (log.exists() and log.read_text().count("\n") >= 5):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    npugraph("fit", "--out", tmp_path / "cut", *more, "--resume")
    for name in ("model.safetensors", "last.safetensors", "settings.json", "facts.parquet"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    logs = [Run.open(tmp_path / name).metrics() for name in ("whole", "cut")]
    assert [r["loss"] for r in logs[0]] == [r["loss"] for r in logs[1]]
