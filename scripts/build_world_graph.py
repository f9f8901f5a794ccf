# /// script
# requires-python = ">=3.11"
# dependencies = ["babel==2.18.0", "countryinfo==1.0.1", "tzdata==2026.6"]
# ///
"""Builds the bundled graph `world.tsv` and its licence file.

The facts come from the Python package countryinfo. Babel (Unicode CLDR) turns language and
currency codes into names a person can read, and the IANA time zone database gives the offset of
each zone. The output depends on nothing else, so the versions are pinned and checked: a second
run writes the same bytes.

Every change to the source data stands in one of the tables below together with its reason. Facts
are dropped, renamed or replaced there, never made up. Gaps of the source stay gaps (Malaysia has
no language, for instance): they are what a model of missing facts is asked about.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import unicodedata
import zoneinfo
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata, resources
from pathlib import Path
from typing import Any

VERSIONS = {"babel": "2.18.0", "countryinfo": "1.0.1", "tzdata": "2026.6"}
OUTPUT = Path(__file__).resolve().parent.parent / "src/npugraph/data/bundled"
YEAR = 2025  # offsets are those of this year, so that a later change of law changes nothing here

Fact = tuple[str, str, str]

# Records that are no country or territory of today, or that repeat another record.
EXCLUDED = {
    "Antarctica": "lies in no region and has no capital",
    "Antilles néerlandaises": "dissolved in 2010",
    "Bouvet Island": "uninhabited; no capital, language or currency",
    "Heard Island and McDonald Islands": "uninhabited; lies in no region",
    "Holy See (Vatican City State)": "repeats Vatican City",
    "Palestine, State of": "repeats Palestine",
    "Serbia and Montenegro": "dissolved in 2006",
    "United States Minor Outlying Islands": "uninhabited; no capital",
}

# Names in daily use, where the source has an outdated or an index form.
RENAMED = {
    "Republic of Macedonia": "North Macedonia",
    "Saint Martin (French part)": "Saint Martin",
    "Sint Maarten (Dutch part)": "Sint Maarten",
    "Swaziland": "Eswatini",
    "Vatican City State": "Vatican City",
    "Virgin Islands, British": "British Virgin Islands",
    "Virgin Islands, U.S.": "United States Virgin Islands",
}

# Capitals by ISO code: moved, renamed, spelt otherwise, or None where there is no such city.
CAPITALS: dict[str, str | None] = {
    "BDI": "Gitega",  # moved from Bujumbura in 2019
    "BES": None,  # three islands, three towns in one field
    "HKG": None,  # "City of Victoria" is no name of today
    "IOT": None,  # Diego Garcia is an island with a military base
    "KAZ": "Astana",  # Nur-Sultan until 2022
    "NFK": "Kingston (Norfolk Island)",  # not the Kingston of Jamaica
    "PYF": "Papeete",
    "TKL": None,  # each atoll has its own centre
    "USA": "Washington, D.C.",
    "VAT": None,  # the city is the state
}

# Pairs that share no land border although the source lists them.
NO_LAND_BORDER = {
    frozenset({"AFG", "IND"}): "rests on a territorial claim",
    frozenset({"ALB", "SRB"}): "Kosovo lies between them",
    frozenset({"BTN", "MMR"}): "India lies between them",
    frozenset({"CYP", "GBR"}): "military bases only",
    frozenset({"FRA", "SUR"}): "French Guiana is an entity of its own here",
    frozenset({"IND", "LKA"}): "the sea lies between them",
    frozenset({"IRN", "KWT"}): "Iraq and the sea lie between them",
    frozenset({"SSD", "TCD"}): "Sudan and the Central African Republic lie between them",
}

# Subregions that differ from the United Nations scheme which all other records follow.
SUBREGIONS = {"MNE": "Southern Europe", "SRB": "Southern Europe"}

# Language codes of the source that mean something else: (country, code) -> code, None to drop.
LANGUAGES: dict[tuple[str, str], str | None] = {
    ("ABW", "pa"): "pap",  # Papiamento, not Punjabi
    ("AZE", "hy"): None,  # Armenian has no status there
    ("COD", "lu"): "lua",  # Luba-Lulua is the national language
    ("CYP", "hy"): None,  # a minority language
    ("GUM", "es"): None,  # of the colonial past
    ("SRB", "rs"): "sr",  # the country's code, not the language's
}
LANGUAGE_NAMES = {
    "cnr": "Montenegrin",  # not in CLDR
    "na": "Nauruan",  # CLDR has the name of the country
}

# Currency codes replaced by law (same currency, new code; or the euro), or None to drop.
CURRENCIES: dict[str, str | None] = {
    "BGN": "EUR",  # Bulgaria, 2026
    "BOV": None,  # unit of account
    "BYR": "BYN",
    "CHE": None,  # unit of account
    "CHW": None,  # unit of account
    "CLF": None,  # unit of account
    "CUC": None,  # abolished in 2021
    "HRK": "EUR",  # Croatia, 2023
    "MRO": "MRU",
    "SLL": "SLE",
    "STD": "STN",
    "SVC": None,  # no longer issued
    "USN": None,  # unit of account
    "USS": None,  # unit of account
    "UYI": None,  # unit of account
    "VEF": "VES",
    "ZMK": "ZMW",
}
# Western Sahara lists the currencies of three neighbours; the dirham is the one in use.
NOT_IN_USE = {("ESH", "DZD"), ("ESH", "MRO")}


@dataclass(frozen=True)
class Country:
    """One cleaned record: `code` is ISO 3166 alpha-3, `point` the capital's (lat, lon) or None."""

    code: str
    name: str
    capital: str | None
    point: tuple[float, float] | None
    continent: str
    region: str
    subregion: str
    borders: tuple[str, ...]
    languages: tuple[str, ...]
    currencies: tuple[str, ...]
    zones: tuple[str, ...]
    calling_codes: tuple[str, ...]


def clean(text: object) -> str:
    """Collapses white space and composes accents, so that equal names have equal bytes."""
    return " ".join(unicodedata.normalize("NFC", str(text or "")).split())


def distance_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Great-circle distance of two (latitude, longitude) points in degrees."""
    lat_a, lat_b = math.radians(a[0]), math.radians(b[0])
    turn = math.cos(math.radians(a[1] - b[1]))
    cosine = math.sin(lat_a) * math.sin(lat_b) + math.cos(lat_a) * math.cos(lat_b) * turn
    return 6371.0 * math.acos(max(-1.0, min(1.0, cosine)))


def capital_point(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """The capital's coordinates, or None where they cannot be those of this country.

    The source looked some capitals up by name alone and found a namesake: Grenada's St. George's
    lies in France there. A point far outside the country's own extent is therefore dropped.
    """
    point = record.get("capital_latlng") or []
    if len(point) != 2 or not all(isinstance(value, int | float) for value in point):
        return None
    found = (float(point[0]), float(point[1]))
    centre = record.get("latlng")
    if centre:
        reach = max(1500.0, 1.2 * math.sqrt(record.get("area") or 0.0))
        if distance_km(found, (float(centre[0]), float(centre[1]))) > reach:
            return None
    return found


def read_capital(record: Mapping[str, Any], code: str, name: str) -> str | None:
    """The capital's name; a capital called like its country is marked as the city."""
    if code in CAPITALS:
        return CAPITALS[code]
    raw = record.get("capital")
    capital = clean(raw[0] if isinstance(raw, list) else raw)
    if not capital:
        return None
    return f"{capital} (city)" if capital == name else capital


def read_country(record: Mapping[str, Any], alpha2: Mapping[str, str]) -> Country:
    """Cleans one record; `alpha2` maps ISO alpha-2 to alpha-3, which one border list needs."""
    code = record["ISO"]["alpha3"]
    name = RENAMED.get(clean(record["name"]), clean(record["name"]))
    region = SUBREGIONS.get(code, clean(record["subregion"]))
    subregion = clean(record.get("intermediateregion"))
    if subregion in ("", "Channel Islands"):  # two islands make no region worth a name
        subregion = region
    languages = (LANGUAGES.get((code, lang), lang) for lang in record.get("languages") or ())
    currencies = (
        CURRENCIES.get(unit, unit)
        for unit in record.get("currencies") or ()
        if (code, unit) not in NOT_IN_USE
    )
    return Country(
        code=code,
        name=name,
        capital=read_capital(record, code, name),
        point=capital_point(record),
        continent=clean(record["region"]),
        region=region,
        subregion=subregion,
        borders=tuple(alpha2.get(other, other) for other in record.get("borders") or ()),
        languages=tuple(lang for lang in languages if lang),
        currencies=tuple(unit for unit in currencies if unit),
        zones=tuple(clean(zone) for zone in record.get("timezoneNames") or ()),
        calling_codes=tuple(clean(c) for c in record.get("callingCodes") or () if clean(c)),
    )


def read_countries() -> dict[str, Country]:
    """All kept countries by ISO code. The first file of a code wins (Curaçao has two)."""
    folder = resources.files("countryinfo") / "data"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".json")), key=lambda f: f.name)
    records = [json.loads(f.read_text(encoding="utf-8")) for f in files]
    records = [record for record in records if clean(record["name"]) not in EXCLUDED]
    alpha2 = {record["ISO"]["alpha2"]: record["ISO"]["alpha3"] for record in records}
    countries: dict[str, Country] = {}
    for record in records:
        country = read_country(record, alpha2)
        countries.setdefault(country.code, country)
    return dict(sorted(countries.items()))


def standard_offset(zone: str) -> timedelta:
    """Offset of an IANA zone without daylight saving: the smaller one of January and July."""
    info = zoneinfo.ZoneInfo(zone)
    offsets = (
        datetime(YEAR, month, 1, tzinfo=UTC).astimezone(info).utcoffset() for month in (1, 7)
    )
    return min(offset for offset in offsets if offset is not None)


def offset_name(offset: timedelta) -> str:
    """The usual name of an offset, such as `UTC+05:30` or `UTC-03:00`."""
    minutes = int(offset.total_seconds()) // 60
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"


def place_facts(country: Country) -> Iterator[Fact]:
    """Where the country and its capital lie."""
    yield country.name, "in_continent", country.continent
    yield country.name, "in_subregion", country.subregion
    yield country.region, "part_of", country.continent
    if country.subregion != country.region:
        yield country.subregion, "part_of", country.region
    if country.capital is None:
        return
    yield country.capital, "capital_of", country.name
    yield country.capital, "located_in", country.subregion
    if country.point is not None:
        latitude, longitude = country.point
        north = "Northern Hemisphere" if latitude >= 0 else "Southern Hemisphere"
        east = "Eastern Hemisphere" if longitude >= 0 else "Western Hemisphere"
        yield country.capital, "in_hemisphere", north
        yield country.capital, "in_hemisphere", east


def border_facts(countries: Mapping[str, Country]) -> Iterator[Fact]:
    """Land borders, in both directions even where the source lists only one."""
    for country in countries.values():
        for code in country.borders:
            if code in countries and frozenset({country.code, code}) not in NO_LAND_BORDER:
                other = countries[code]
                yield country.name, "borders", other.name
                yield other.name, "borders", country.name


def life_facts(country: Country) -> Iterator[Fact]:
    """Languages, currencies and the first digit of the telephone code (a part of the world)."""
    from babel import Locale

    english = Locale("en")
    for code in country.languages:
        name = LANGUAGE_NAMES.get(code) or clean(english.languages[code])
        yield country.name, "has_language", name
    for unit in country.currencies:
        yield country.name, "uses_currency", clean(english.currencies[unit])
    for code in country.calling_codes:
        yield country.name, "in_calling_zone", f"calling zone +{code[0]}"


def time_facts(countries: Mapping[str, Country]) -> Iterator[Fact]:
    """Zones of countries, offsets of both, and the order of the offsets."""
    offsets: set[timedelta] = set()
    for country in countries.values():
        for zone in country.zones:
            offset = standard_offset(zone)
            offsets.add(offset)
            yield country.name, "has_time_zone", zone
            yield country.name, "has_utc_offset", offset_name(offset)
            yield zone, "zone_utc_offset", offset_name(offset)
    for offset in offsets:
        if offset - timedelta(hours=1) in offsets:
            yield offset_name(offset), "one_hour_ahead_of", offset_name(offset - timedelta(hours=1))


def build_facts() -> list[Fact]:
    """All facts, each once, in sorted order."""
    countries = read_countries()
    facts: set[Fact] = set(border_facts(countries)) | set(time_facts(countries))
    for country in countries.values():
        facts.update(place_facts(country))
        facts.update(life_facts(country))
    for head, relation, tail in facts:
        if not head or not tail or head == tail or "\t" in head + tail:
            raise SystemExit(f"Bad fact: {head!r} {relation!r} {tail!r}.")
    check_kinds(facts)
    return sorted(facts, key=lambda fact: (fact[1], fact[0], fact[2]))


def check_kinds(facts: set[Fact]) -> None:
    """Stops where one name stands for two kinds of thing, such as a city and a country."""
    kinds = {
        "country": {h for h, r, _ in facts if r == "in_continent"},
        "city": {h for h, r, _ in facts if r == "capital_of"},
        "language": {t for _, r, t in facts if r == "has_language"},
        "currency": {t for _, r, t in facts if r == "uses_currency"},
        "region": {name for h, r, t in facts if r == "part_of" for name in (h, t)},
        "zone": {h for h, r, _ in facts if r == "zone_utc_offset"},
    }
    seen: dict[str, str] = {}
    for kind, names in kinds.items():
        for name in sorted(names):
            if name in seen:
                raise SystemExit(f"{name!r} is both a {seen[name]} and a {kind}: rename one.")
            seen[name] = kind
    heads = [h for h, r, _ in facts if r == "capital_of"]
    if len(heads) != len(set(heads)):
        raise SystemExit("Two countries have a capital of the same name: rename one.")


def licence_text() -> str:
    """What was derived from which source, followed by the full licence texts."""
    info = metadata.distribution("countryinfo").locate_file(
        f"countryinfo-{VERSIONS['countryinfo']}.dist-info"
    )
    mit = (Path(str(info)) / "licenses" / "LICENSE").read_text(encoding="utf-8")
    unicode = resources.files("babel") / "locale-data" / "LICENSE.unicode"
    cldr = unicode.read_text(encoding="utf-8")
    return f"""world.tsv: where its facts come from

world.tsv is derived by scripts/build_world_graph.py from

1. countryinfo {VERSIONS["countryinfo"]} (https://github.com/porimol/countryinfo), MIT licence:
   names, capitals and their coordinates (as hemispheres), regions, land borders, language codes,
   currency codes, time zone names and calling codes (first digit) of countries and territories.
   Known errors were corrected or dropped; the tables at the top of the script list each change
   and its reason.
2. Unicode CLDR as shipped with Babel {VERSIONS["babel"]}, Unicode licence V3: the English names of
   languages and currencies.
3. The IANA time zone database as shipped with tzdata {VERSIONS["tzdata"]}, public domain: the
   standard offset of each zone in {YEAR}.

The texts of licences 1 and 2 follow.

{"-" * 80}
countryinfo
{"-" * 80}
{mit.strip()}

{"-" * 80}
Unicode CLDR
{"-" * 80}
{cldr.strip()}
"""


def check_versions() -> None:
    """Stops where another version is installed: its data would change the output."""
    for name, wanted in VERSIONS.items():
        found = metadata.version(name)
        if found != wanted:
            raise SystemExit(f"{name} {wanted} is needed, {found} is installed.")


def main() -> None:
    """Writes `world.tsv` and `WORLD_LICENSE.txt` into the package's data folder."""
    parser = argparse.ArgumentParser(description="Build the bundled graph world.tsv.")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder to write into")
    folder: Path = parser.parse_args().output
    check_versions()
    zoneinfo.reset_tzpath(to=())  # the pinned package, not the system's database
    facts = build_facts()
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["head\trelation\ttail", *("\t".join(fact) for fact in facts)]
    (folder / "world.tsv").write_bytes(("\n".join(rows) + "\n").encode())
    (folder / "WORLD_LICENSE.txt").write_bytes(licence_text().encode())
    sys.stdout.write(f"{len(facts)} facts written to {folder}\n")


if __name__ == "__main__":
    main()
