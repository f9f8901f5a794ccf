"""The script that measures the recipe path, on the bundled graph with tiny settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.quality import paths, paths_tables
from npugraph.recipes.path.plus import PlusSettings
from npugraph.recipes.path.recipe import PathSettings

TINY = ("d=2", "layers=2", "epochs=1", "epoch_share=0.02", "valid_facts=20", "batch_size=16")
TINY_COMPLEX = ("complex_d=2", "complex_epochs=1")


def lines(tmp_path: Path, *words: str) -> list[dict[str, object]]:
    out = tmp_path / "results.jsonl"
    command = ["world", "--device", "cpu", "--work", str(tmp_path / "work"), "--out", str(out)]
    command += [word for value in TINY for word in ("--set", value)]
    paths.main([*command, *words])
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_every_result_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {line["kind"]: line for line in lines(tmp_path, "--seed", "3")}
    assert list(found) == ["speed", "ranking", "detection"]
    printed = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["kind"] for line in printed] == list(found)
    for line in found.values():
        assert line["seed"] == 3
        assert line["recipe"] == "path"
        assert line["source"]
        assert "--seed 3" in str(line["command"])
    for name in ("clean", "perturbed"):
        figures = found["ranking"][name]
        assert isinstance(figures, dict)
        assert 0 < figures["mrr"] <= 1
    for name in ("among_new_sum", "credibility"):
        judged = found["detection"][name]
        assert isinstance(judged, dict)
        assert 0 <= judged["auroc"] <= 1


def test_npugraph_plus_is_ranked_with_its_parts(tmp_path: Path) -> None:
    words = [word for value in TINY_COMPLEX for word in ("--set", value)]
    found = lines(tmp_path, "--recipe", "npugraph-plus", "--no-detection", *words)
    rankings = [line for line in found if line["kind"] == "ranking"]
    assert [line["part"] for line in rankings] == ["whole", "paths", "vectors"]
    assert [paths_tables.system_of(line) for line in rankings] == [
        "npugraph-plus",
        "npugraph-plus: paths alone",
        "npugraph-plus: vectors alone",
    ]
    assert all({"valid_weight", "valid_weight_by_unlinked"} <= line.keys() for line in rankings)
    assert len({line["clean"]["mrr"] for line in rankings}) > 1


def test_validation_facts_as_evidence_are_a_line_of_their_own(tmp_path: Path) -> None:
    words = ["--no-detection", "--valid-evidence", "--set", "members=2"]
    found = [line for line in lines(tmp_path, *words) if line["kind"] == "ranking"]
    assert [paths_tables.system_of(line) for line in found] == [
        "path, 2 members",
        "path, 2 members: paths, validation facts as evidence",
    ]
    assert found[0]["clean"] != found[1]["clean"]
    # Linked means by a training fact, here as there.
    assert found[0]["linked_share"] == found[1]["linked_share"]


def test_paths_within_reach_are_a_system_of_their_own(tmp_path: Path) -> None:
    found = lines(tmp_path, "--no-detection", "--set", "reached_only=true")
    named = [paths_tables.system_of(line) for line in found if line["kind"] == "ranking"]
    assert named == ["path, within reach"]


def test_what_is_weighed_is_named_and_a_former_credibility_is_in_no_table() -> None:
    line = {"kind": "detection", "graph": "umls", "rate": 0.3, "noise": "random", "seed": 0}
    weighed = {"members": 2, "question_weights": "posterior", "posterior_kinds": "all"}
    weighed |= {"paths": "npugraph-path"}
    line |= {"recipe": "npugraph-plus", "settings": weighed, "source": "another"}
    assert paths_tables.system_of(line) == "npugraph-plus, 2 members, weighed"
    others = ({"posterior_kinds": "plausible"}, {"question_weights": "none"}, {"paths": "path"})
    for other in others:
        plain = {**line, "settings": {**weighed, **other}}
        assert paths_tables.system_of(plain) == "npugraph-plus, 2 members"
    line |= {value: {"auroc": 0.75, "ap": 0.5} for value in paths_tables.VALUES}
    (row,) = list(paths_tables.detection([line]))[2:]
    assert row.endswith("| .750 / .500 |")
    (row,) = list(paths_tables.detection([{**line, "source": paths_tables.FORMER}]))[2:]
    assert row.endswith("| .750 / .500 | not run |")


def test_npugraph_plus_has_the_settings_of_its_parts() -> None:
    def asked(graph: str) -> PathSettings:
        words = [graph, "--recipe", "npugraph-plus"]
        return paths.settings_of(paths.parser().parse_args(words))

    found = [(s.weight_by, s.complex_d, s.complex_n3) for s in map(asked, ("fb15k-237", "wn18rr"))]
    assert found == [("unlinked", 512, 0.05), ("all", 512, 0.1)]
    assert asked("umls").complex_d == PlusSettings().complex_d
    assert asked("fb15k-237").hide_pair_share == 0.5


def test_a_graph_as_published_has_one_filter(tmp_path: Path) -> None:
    speed, ranking = lines(tmp_path, "--rate", "0")
    assert speed["kind"] == "speed"
    assert "clean" in ranking
    assert "perturbed" not in ranking


def test_only_the_speed(tmp_path: Path) -> None:
    (line,) = lines(tmp_path, "--only-speed")
    assert isinstance(line["ms_per_step"], float)


@pytest.mark.parametrize("graph", paths.SETTINGS)
def test_a_graph_as_published_is_trained_longer(graph: str) -> None:
    def asked(rate: str) -> PathSettings:
        return paths.settings_of(paths.parser().parse_args([graph, "--rate", rate]))

    perturbed, published = asked("0.3"), asked("0")
    passes = [made.epochs * made.epoch_share for made in (perturbed, published)]
    assert passes[0] <= 1
    assert (passes[1] > passes[0]) == (graph in paths.PUBLISHED)


def test_another_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="complex-n3 is no recipe of paths"):
        paths.main(["world", "--recipe", "complex-n3", "--out", str(tmp_path / "none.jsonl")])
    assert not (tmp_path / "none.jsonl").exists()
