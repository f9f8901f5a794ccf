"""Plans: a TOML file that says which systems are compared on what, and the cells it stands for.

A cell is one run: one system with all its settings, on one graph at one perturbation rate, with one
seed. Its key is a hash of all that was asked for, so that a finished cell is known
again in another plan and on another machine. Labels, titles, notes and the device are not in it.
Neither are the sources of the package: they are recorded beside the figures (sources.py).
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from npugraph.data.corrupt import NOISES
from npugraph.data.datasets import content_hash
from npugraph.data.perturb import PerturbSettings
from npugraph.errors import DataError, SettingsError, nearest
from npugraph.ranking.evaluate import FILTERS
from npugraph.recipes import get_recipe
from npugraph.settings import make_settings

Values = dict[str, Any]
# The version that the first keys were made with; it stays, so that finished cells stay known.
KEY_VERSION = "0.1.0"
# Settings that change how fast the figures come, and not what they are.
SPEED_ALONE = ("cuda_graph",)
# Settings that came after the first keys, with what they stand for in cells from before.
LATER: dict[str, Any] = {
    "table_precision": "float32",
    "members": 1,
    "reached_only": False,
    "draws": 0,
}


@dataclass(frozen=True)
class Cell:
    """One run of a plan.

    Attributes:
        label: the row of the table.
        recipe: a name of RECIPES.
        graph: a name of the catalogue, a file or a folder.
        rate: share of the facts that are flipped; 0: the graph as published.
        noise: where planted facts come from.
        seed: of the perturbation and of the training.
        settings: all settings of the recipe but the device.
        changes: those that the plan gave.
        filters: of the ranking.
        hits: the k of Hits@k.
        note: what a reader of the figures must know.
        data: the hash of the graph as published.
        device: what it runs on.
        sweep: the setting that a sweep varies and its value here, or None.
    """

    label: str
    recipe: str
    graph: str
    rate: float
    noise: str
    seed: int
    settings: Values
    changes: Values
    filters: tuple[str, ...]
    hits: tuple[int, ...]
    note: str
    data: str
    device: str = "auto"
    sweep: tuple[str, Any] | None = None

    @cached_property
    def key(self) -> str:
        """Sixteen hex digits that stand for what was asked for."""
        identity = {
            "recipe": self.recipe,
            "settings": {
                name: value
                for name, value in self.settings.items()
                if name not in SPEED_ALONE and (name not in LATER or value != LATER[name])
            },
            "data": self.data,
            "rate": self.rate,
            # Nothing is planted at rate 0.
            "noise": self.noise if self.rate else None,
            "seed": self.seed,
            "filters": self.filters,
            "hits": self.hits,
            "version": KEY_VERSION,
        }
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        """A few words that tell this cell from the others of its plan."""
        swept = f" {self.sweep[0]}={self.sweep[1]}" if self.sweep else ""
        return f"{self.label}{swept}, {self.graph} {self.rate:g}, seed {self.seed}"

    def to_json(self) -> Values:
        """Return the cell as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Cell:
        """Make a cell of what ``to_json`` returned."""
        tuples = {name: tuple(values[name]) for name in ("filters", "hits")}
        sweep = values["sweep"]
        return cls(**{**values, **tuples, "sweep": tuple(sweep) if sweep else None})


@dataclass(frozen=True)
class PlannedSystem:
    """One row of a plan: a recipe, its settings for all graphs and for some."""

    label: str
    recipe: str
    note: str = ""
    settings: Values = field(default_factory=dict)
    graph: dict[str, Values] = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """One setting of one system, varied."""

    label: str
    setting: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class BenchPlan:
    """What is compared on what; see docs/bench.md for the file.

    Attributes:
        name: how it is called.
        title: one sentence for the table.
        graphs: names of the catalogue, files or folders.
        rates: perturbation rates; 0 is the graph as published.
        noise: where planted facts come from.
        seeds: of perturbation and training.
        filters: of the ranking.
        hits: the k of Hits@k.
        settings: for all systems.
        systems: the rows.
        sweeps: settings that are varied.
        source: the name or the path it was read from.
    """

    name: str
    graphs: tuple[str, ...]
    systems: tuple[PlannedSystem, ...]
    title: str = ""
    rates: tuple[float, ...] = (0.3,)
    noise: str = "random"
    seeds: tuple[int, ...] = (0,)
    filters: tuple[str, ...] = ("clean", "perturbed")
    hits: tuple[int, ...] = (1, 3, 10)
    settings: Values = field(default_factory=dict)
    sweeps: tuple[Sweep, ...] = ()
    source: str = ""

    @classmethod
    def read(cls, plan: str | Path) -> BenchPlan:
        """Read a packaged plan by its name, or a plan by its path, and check all of it."""
        text, source = _text(plan)
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{source}: not a TOML file ({error}).") from None
        return cls.from_values(values, source)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], source: str = "the plan") -> BenchPlan:
        """Make a plan of the values of a TOML file; every mistake is an error that names it."""
        try:
            plan = _parse(values, source)
            _check(plan)
        except (SettingsError, DataError) as error:
            raise SettingsError(f"{source}: {error}") from None
        return plan

    def cells(self) -> list[Cell]:
        """Return the cells by graph, rate, system and seed; then those of the sweeps.

        A sweep may pass through a system's own settings: that cell is there twice, with one key.
        """
        found = []
        for graph in self.graphs:
            data = content_hash(graph)
            for rate in self.rates:
                for system in self.systems:
                    found += [self._cell(system, graph, data, rate, seed) for seed in self.seeds]
        for sweep in self.sweeps:
            system = self.system(sweep.label)
            for graph in self.graphs:
                data = content_hash(graph)
                found += [
                    self._cell(system, graph, data, rate, seed, (sweep.setting, value))
                    for rate in self.rates
                    for value in sweep.values
                    for seed in self.seeds
                ]
        return found

    def system(self, label: str) -> PlannedSystem:
        """Return a system by its label."""
        for system in self.systems:
            if system.label == label:
                return system
        labels = [system.label for system in self.systems]
        hint = nearest(label, labels) or f" Known: {', '.join(labels)}."
        raise SettingsError(f"no system has the label {label!r}.{hint}")

    def _cell(
        self,
        system: PlannedSystem,
        graph: str,
        data: str,
        rate: float,
        seed: int,
        sweep: tuple[str, Any] | None = None,
    ) -> Cell:
        changes = {**self.settings, **system.settings, **system.graph.get(graph, {})}
        if sweep:
            changes[sweep[0]] = sweep[1]
        kind = get_recipe(system.recipe).settings
        settings = asdict(make_settings(kind, {**changes, "seed": seed}))
        device = settings.pop("device")
        return Cell(
            system.label,
            system.recipe,
            graph,
            rate,
            self.noise,
            seed,
            settings,
            {name: value for name, value in changes.items() if name != "device"},
            self.filters,
            self.hits,
            system.note,
            data,
            device,
            sweep,
        )


def distinct(cells: Sequence[Cell]) -> list[Cell]:
    """Return each cell once, where it first stands."""
    found: dict[str, Cell] = {}
    for cell in cells:
        found.setdefault(cell.key, cell)
    return list(found.values())


def packaged() -> list[str]:
    """Return the names of the plans that come with the package."""
    folder = resources.files("npugraph.bench") / "plans"
    found = (item.name for item in folder.iterdir())
    return sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))


def _text(plan: str | Path) -> tuple[str, str]:
    """Return the text of a plan and where it is from."""
    names = packaged()
    if str(plan) in names:
        file = resources.files("npugraph.bench") / "plans" / f"{plan}.toml"
        return file.read_text(encoding="utf-8"), str(plan)
    path = Path(plan)
    if not path.is_file():
        hint = nearest(str(plan), names) or f" Known: {', '.join(names)}."
        raise SettingsError(f"{str(plan)!r} is neither a plan of the package nor a file.{hint}")
    return path.read_text(encoding="utf-8"), str(plan)


def _parse(values: Mapping[str, Any], source: str) -> BenchPlan:
    allowed = [f.name for f in fields(BenchPlan) if f.name != "source"]
    given = dict(_known(values, allowed, "the plan", ("name", "graphs", "systems")))
    systems = tuple(_parse_system(value) for value in _tables(given, "systems"))
    sweeps = tuple(_parse_sweep(value) for value in _tables(given, "sweeps"))
    for name in ("graphs", "rates", "seeds", "filters", "hits"):
        if name in given:
            given[name] = _list(name, given[name])
    if "rates" in given:
        given["rates"] = tuple(_number("rates", value) for value in given["rates"])
    for name in ("name", "title", "noise"):
        _text_of(given.get(name, ""), name)
    for graph in given["graphs"]:
        _text_of(graph, "a graph")
    return BenchPlan(**{**given, "systems": systems, "sweeps": sweeps, "source": source})


def _parse_system(values: Mapping[str, Any]) -> PlannedSystem:
    names = [f.name for f in fields(PlannedSystem)]
    given = _known(values, names, f"the system {values.get('label')!r}", ("label", "recipe"))
    for name in ("label", "recipe", "note"):
        _text_of(given.get(name, ""), name)
    for table in (given.get("settings", {}), *given.get("graph", {}).values()):
        if not isinstance(table, dict):
            raise SettingsError(f"{given['label']}: {table!r} stands where settings should.")
    return PlannedSystem(**given)


def _parse_sweep(values: Mapping[str, Any]) -> Sweep:
    names = [f.name for f in fields(Sweep)]
    given = _known(values, names, "a sweep", names)
    return Sweep(given["label"], given["setting"], _list("values", given["values"]))


def _known(
    values: Mapping[str, Any], names: Sequence[str], what: str, needed: Sequence[str]
) -> Mapping[str, Any]:
    """Refuse names that mean nothing, and a table that lacks a needed one."""
    for name in values:
        if name not in names:
            hint = nearest(name, list(names)) or f" Known: {', '.join(names)}."
            raise SettingsError(f"{what} has no {name!r}.{hint}")
    for name in needed:
        if name not in values:
            raise SettingsError(f"{what} lacks {name!r}.")
    return values


def _tables(values: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = values.get(name, [])
    if not isinstance(found, list) or not all(isinstance(value, dict) for value in found):
        raise SettingsError(f"{name} must be tables: begin each with [[{name}]].")
    return found


def _list(name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list) or not value:
        raise SettingsError(f"{name}={value!r} must be a list with at least one value.")
    if len({json.dumps(item) for item in value}) < len(value):
        raise SettingsError(f"{name}={value!r} names a value twice.")
    return tuple(value)


def _text_of(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{what} must be a text in quotes, not {value!r}.")
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingsError(f"{name} holds {value!r}, which is not a number.")
    return float(value)


def _check(plan: BenchPlan) -> None:
    """Refuse values that mean nothing, before any graph is read."""
    _check_protocol(plan)
    labels = [system.label for system in plan.systems]
    if not labels or len(set(labels)) < len(labels):
        raise SettingsError(f"the systems need labels that differ, not {labels}.")
    for system in plan.systems:
        _check_system(plan, system)
    for sweep in plan.sweeps:
        plan.system(sweep.label)
        if sweep.setting in ("seed", "device"):
            raise SettingsError(f"{sweep.setting} cannot be swept; give seeds = [...].")
    for graph in plan.graphs:
        content_hash(graph)


def _check_protocol(plan: BenchPlan) -> None:
    """Refuse what perturbation and ranking cannot do."""
    for rate in plan.rates:
        PerturbSettings(rate)
    for what, values, allowed in (
        ("noise", (plan.noise,), NOISES),
        ("filters", plan.filters, FILTERS),
    ):
        for value in values:
            if value not in allowed:
                hint = nearest(str(value), allowed)
                raise SettingsError(f"{what}={value!r} must be one of {', '.join(allowed)}.{hint}")
    for what, least in (("seeds", 0), ("hits", 1)):
        for value in getattr(plan, what):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SettingsError(f"{what} holds {value!r}, not a whole number from {least} on.")


def _check_system(plan: BenchPlan, system: PlannedSystem) -> None:
    """Build the settings of a system for every graph, its sweeps included."""
    for graph in system.graph:
        if graph not in plan.graphs:
            hint = nearest(graph, plan.graphs) or f" It has: {', '.join(plan.graphs)}."
            raise SettingsError(f"{system.label} has settings for {graph!r}, not in graphs.{hint}")
    if any("seed" in table for table in (plan.settings, system.settings, *system.graph.values())):
        raise SettingsError("seed is no setting of a plan; give seeds = [...] for all systems.")
    swept = [(s.setting, v) for s in plan.sweeps if s.label == system.label for v in s.values]
    for graph in plan.graphs:
        for sweep in (None, *swept):
            try:
                plan._cell(system, graph, "", 0.0, 0, sweep)
            except SettingsError as error:
                raise SettingsError(f"{system.label}: {error}") from None
