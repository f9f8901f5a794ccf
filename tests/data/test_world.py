"""The bundled graph: well-formed, consistent with itself, and what its script says it is."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from importlib import metadata, resources
from pathlib import Path

import pytest

from npugraph.data.datasets import bundled

CONTINENTS = {"Africa", "Americas", "Asia", "Europe", "Oceania"}
Fact = tuple[str, str, str]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    text = (resources.files("npugraph") / "data/bundled" / "world.tsv").read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text.split("\n")[:-1]


@pytest.fixture(scope="module")
def facts(lines: list[str]) -> list[Fact]:
    rows = [tuple(line.split("\t")) for line in lines[1:]]
    assert {len(row) for row in rows} == {3}
    return [(row[0], row[1], row[2]) for row in rows]


@pytest.fixture(scope="module")
def tails(facts: list[Fact]) -> dict[str, dict[str, set[str]]]:
    """Relation -> head -> tails."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for head, relation, tail in facts:
        found[relation][head].add(tail)
    return found


def test_is_well_formed(lines: list[str], facts: list[Fact]) -> None:
    assert lines[0] == "head\trelation\ttail"
    assert len(facts) == len(set(facts)) == 4045
    assert facts == sorted(facts, key=lambda fact: (fact[1], fact[0], fact[2]))
    for fact in facts:
        assert all(part and part == " ".join(part.split()) for part in fact)
        assert fact[0] != fact[2]


def test_counts_per_relation(facts: list[Fact]) -> None:
    assert Counter(relation for _, relation, _ in facts) == {
        "borders": 638,
        "capital_of": 239,
        "has_language": 340,
        "has_time_zone": 409,
        "has_utc_offset": 294,
        "in_calling_zone": 235,
        "in_continent": 245,
        "in_hemisphere": 458,
        "in_subregion": 245,
        "located_in": 239,
        "one_hour_ahead_of": 29,
        "part_of": 24,
        "uses_currency": 241,
        "zone_utc_offset": 409,
    }


def test_borders_are_symmetric_and_between_countries(
    facts: list[Fact], tails: dict[str, dict[str, set[str]]]
) -> None:
    borders = {(head, tail) for head, relation, tail in facts if relation == "borders"}
    assert borders == {(tail, head) for head, tail in borders}
    assert {head for head, _ in borders} <= set(tails["in_continent"])


def test_every_country_has_one_continent_and_one_subregion(
    tails: dict[str, dict[str, set[str]]],
) -> None:
    assert set(tails["in_continent"]) == set(tails["in_subregion"])
    for country, continents in tails["in_continent"].items():
        assert len(continents) == 1
        assert continents <= CONTINENTS
        (place,) = tails["in_subregion"][country]
        while place not in CONTINENTS:  # up the tree of regions, to the same continent
            (place,) = tails["part_of"][place]
        assert {place} == continents


def test_heads_of_a_country_relation_are_countries(tails: dict[str, dict[str, set[str]]]) -> None:
    countries = set(tails["in_continent"])
    for relation in (
        "borders",
        "has_language",
        "has_time_zone",
        "has_utc_offset",
        "in_calling_zone",
        "uses_currency",
    ):
        assert set(tails[relation]) <= countries, relation


def test_capitals_belong_to_one_country_and_lie_in_its_subregion(
    tails: dict[str, dict[str, set[str]]],
) -> None:
    capitals = tails["capital_of"]
    assert set(capitals) == set(tails["located_in"])
    countries = [country for targets in capitals.values() for country in targets]
    assert len(countries) == len(set(countries)) == len(capitals)
    assert not set(capitals) & set(tails["in_continent"])
    for city, (country,) in ((city, tuple(found)) for city, found in capitals.items()):
        assert tails["located_in"][city] == tails["in_subregion"][country]


def test_hemispheres_come_in_pairs(tails: dict[str, dict[str, set[str]]]) -> None:
    for city, halves in tails["in_hemisphere"].items():
        assert city in tails["capital_of"]
        assert len(halves & {"Northern Hemisphere", "Southern Hemisphere"}) == 1
        assert len(halves & {"Eastern Hemisphere", "Western Hemisphere"}) == 1
    assert tails["in_hemisphere"]["Quito"] == {"Southern Hemisphere", "Western Hemisphere"}


def test_offsets_of_a_country_are_those_of_its_zones(
    tails: dict[str, dict[str, set[str]]],
) -> None:
    for country, zones in tails["has_time_zone"].items():
        offsets = set().union(*(tails["zone_utc_offset"][zone] for zone in zones))
        assert tails["has_utc_offset"][country] == offsets
    owners = Counter(zone for zones in tails["has_time_zone"].values() for zone in zones)
    assert set(owners) == set(tails["zone_utc_offset"])
    assert set(owners.values()) == {1}


@pytest.mark.parametrize(
    "fact",
    [
        ("Paris", "capital_of", "France"),
        ("Astana", "capital_of", "Kazakhstan"),
        ("Washington, D.C.", "capital_of", "United States"),
        ("France", "borders", "Spain"),
        ("Nepal", "borders", "China"),
        ("Brazil", "has_language", "Portuguese"),
        ("Serbia", "has_language", "Serbian"),
        ("Aruba", "has_language", "Papiamento"),
        ("Croatia", "uses_currency", "Euro"),
        ("Japan", "uses_currency", "Japanese Yen"),
        ("India", "has_utc_offset", "UTC+05:30"),
        ("Kenya", "in_subregion", "Eastern Africa"),
    ],
)
def test_known_facts_are_there(facts: list[Fact], fact: Fact) -> None:
    assert fact in set(facts)


@pytest.mark.parametrize(
    "fact",
    [
        ("India", "borders", "Sri Lanka"),
        ("Myanmar", "borders", "Bhutan"),
        ("Aruba", "has_language", "Punjabi"),
        ("Bujumbura", "capital_of", "Burundi"),
        ("Malaysia", "has_language", "Malay"),  # a gap of the source, kept as a gap
    ],
)
def test_corrected_errors_stay_out(facts: list[Fact], fact: Fact) -> None:
    assert fact not in set(facts)


def test_licence_names_what_was_derived() -> None:
    text = (resources.files("npugraph") / "data/bundled" / "WORLD_LICENSE.txt").read_text(
        encoding="utf-8"
    )
    for words in ("countryinfo 1.0.1", "MIT License", "Porimol Chandro", "UNICODE LICENSE V3"):
        assert words in text


def test_bundled_split_is_fixed_and_covers_every_entity() -> None:
    one, two = bundled().split(), bundled().split()
    assert one.name == "world"
    assert sum(len(part) for part in one.parts().values()) == 4045
    assert one.num_relations == 14
    for name, part in one.parts().items():
        assert part.facts.equal(two.parts()[name].facts)
    seen = set(one.train.facts[:, [0, 2]].flatten().tolist())
    assert len(seen) == one.num_entities


def test_script_writes_the_same_bytes(tmp_path: Path) -> None:
    for package, wanted in (("babel", "2.18.0"), ("countryinfo", "1.0.1"), ("tzdata", "2026.6")):
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            pytest.skip(f"{package} is not installed: world.tsv is not built again")
        if found != wanted:
            pytest.skip(f"{package} is {found}, not {wanted}: world.tsv is not built again")
    script = Path(__file__).parents[2] / "scripts" / "build_world_graph.py"
    subprocess.run([sys.executable, str(script), "--output", str(tmp_path)], check=True)
    for name in ("world.tsv", "WORLD_LICENSE.txt"):
        shipped = resources.files("npugraph") / "data/bundled" / name
        assert (tmp_path / name).read_bytes() == shipped.read_bytes()
