"""What an audit is asked for."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.data.corrupt import Noise
from npugraph.errors import SettingsError, nearest
from npugraph.recipes import get_recipe
from npugraph.recipes.path.recipe import PathSettings
from npugraph.settings import check_ranges, make_settings, parse_value, setting

# What the audit gives to the recipe's settings, whose fields have the same names.
SET_BY_AUDIT = ("device", "seed")
# The kinds of evidence; auditing/views has one file for each.
ViewName = Literal["embedding", "pairs", "path", "roles", "names", "near"]
# Those that can rank entities: missing facts are proposed, and facts explained, by the first.
RANKING: tuple[ViewName, ...] = ("embedding", "path")
# The kinds of wrong facts that pools are drawn of. One end alone is a cut of ``one-sided``. Those
# that lie among true facts (``hard``) are not: what is true and hard to know looks like them. Where
# they come several to a question (``crowded``), their number tells.
KINDS: tuple[Noise, ...] = ("random", "one-sided", "typed", "swapped", "relation", "crowded")
# The self-test plants these as well: it shows what becomes of errors that no pool resembles.
TESTED: tuple[Noise, ...] = (*KINDS, "hard", "near-duplicate", "one-source")
# Called with the name of each stage and what is known of its progress.
Stage = Callable[[str, dict[str, Any]], object]


def has_paths(recipe: str) -> bool:
    """Tell whether a recipe judges by paths, and so has no entity vectors."""
    return issubclass(get_recipe(recipe).settings, PathSettings)


@dataclass(frozen=True)
class AuditSettings:
    """What an audit is asked for; ``thresholds`` are the numbers that were tuned."""

    recipe: str = setting("complex-n3", "the system that judges the facts")
    folds: int = setting(5, "systems trained; each judges the facts it never saw", low=2)
    budget: int = setting(100, "facts a person is willing to review", low=1)
    target_precision: float = setting(
        0.9, "expected share of wrong facts among those put in quarantine", low=0, high=1
    )
    missing: int | None = setting(
        None,
        "missing facts to propose at most; none: those of which at least half should be true, or "
        "as many as the budget where that cannot be told",
    )
    per_question: int = setting(3, "candidates for a missing fact per question", low=1)
    views: tuple[ViewName, ...] = setting(
        (), "kinds of evidence, with commas between; none: those that suit the graph"
    )
    evidence: tuple[str, ...] = setting(
        (), "columns of the input that may say something about a fact, with commas between"
    )
    source: str | None = setting(None, "column that says where a fact is from; errors cluster")
    compared: int = setting(512, "entities each question is compared with, twice", low=2)
    explained: int = setting(200, "facts of each list that come with their evidence", low=0)
    beta: float | None = setting(None, "share of true facts among the collected, if known")
    alpha: float | None = setting(None, "share of true facts among the uncollected, if known")
    kinds: tuple[Noise, ...] = setting(
        KINDS, "kinds of wrong facts that stored ones are compared with, with commas between"
    )
    self_test: float = setting(
        0.04, "share of facts planted to test the audit on this very graph", low=0, high=0.2
    )
    tested: tuple[Noise, ...] = setting(
        TESTED, "kinds of wrong facts that are planted for that, as many of each"
    )
    search: bool = setting(True, "on small graphs, let validation choose among a few settings")
    device: str = setting("auto", "cpu, cuda, ...; auto takes a GPU where there is one")
    seed: int = setting(0, "every random draw follows from it", low=0)
    thresholds: Thresholds = dataclasses.field(default=TUNED, metadata={"help": "what was tuned"})

    def __post_init__(self) -> None:
        """Refuse values that mean nothing before any work is done."""
        check_ranges(self)
        if self.missing is not None and self.missing < 0:
            raise SettingsError(f"missing={self.missing} must be at least 0.")
        for name in ("beta", "alpha"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise SettingsError(f"{name}={value} must lie between 0 and 1, both left out.")
        if self.beta is not None and self.alpha is not None and self.alpha >= self.beta:
            raise SettingsError(
                f"alpha={self.alpha} must be below beta={self.beta}: collected facts are true "
                "more often than uncollected ones."
            )
        get_recipe(self.recipe)
        parse_value("views", self.views, tuple[ViewName, ...])
        for name in ("kinds", "tested"):
            kinds = getattr(self, name)
            parse_value(name, kinds, tuple[Noise, ...])
            if not kinds or len(set(kinds)) < len(kinds):
                raise SettingsError(f"{name}={','.join(kinds)} must name some kinds, each once.")
        if len(set(self.views)) < len(self.views):
            raise SettingsError(f"views={','.join(self.views)} has a view twice.")
        if self.views and not set(RANKING) & set(self.views):
            raise SettingsError(
                f"views={','.join(self.views)}: none of them can rank entities; take one of "
                f"{' and '.join(RANKING)}, too."
            )
        if has_paths(self.recipe) and {"embedding", "pairs"} & set(self.views):
            raise SettingsError(
                f"The recipe {self.recipe} has no entity vectors, so it gives no such view; "
                "leave the recipe as it is and ask for --views embedding,path."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The further columns of the input that are read; an end of the fact is there anyway."""
        if self.source is None or self.source in ("head", "tail"):
            return self.evidence
        return (*self.evidence, self.source)

    @property
    def most_missing(self) -> int:
        """How many missing facts may be listed at most."""
        return self.thresholds.most_missing if self.missing is None else self.missing

    def asked(self) -> dict[str, Any]:
        """Return what was asked for, by name, without the thresholds."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "thresholds"]
        values = {name: getattr(self, name) for name in names}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def divide_settings(
    recipe: str, values: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Divide ``name=value`` settings into those of the audit and those of its recipe.

    A name that both have is the recipe's: the audit's own are given otherwise. What is unknown, or
    no value of its setting, is refused.

    >>> divide_settings("npugraph", {"missing": "5", "beta": "0.9", "one_ended": "3"})[1]
    {'beta': '0.9'}
    """
    kind = get_recipe(recipe).settings
    of_recipe = {field.name for field in dataclasses.fields(kind)} - set(SET_BY_AUDIT)
    own = {n: t for n, t in typing.get_type_hints(AuditSettings).items() if n != "thresholds"}
    tuned = {n: t for n, t in typing.get_type_hints(Thresholds).items() if t in (int, float)}
    changes = {name: value for name, value in values.items() if name in of_recipe}
    asked: dict[str, Any] = {}
    thresholds: dict[str, Any] = {}
    for name, value in values.items():
        if name in of_recipe:
            continue
        if name in own:
            asked[name] = parse_value(name, value, own[name])
        elif name in tuned:
            thresholds[name] = parse_value(name, value, tuned[name])
        else:
            names = [*own, *of_recipe, *tuned]
            hint = nearest(name, names) or f" Known: {', '.join(names)}."
            raise SettingsError(f"There is no setting {name!r}.{hint}")
    make_settings(kind, changes)
    if thresholds:
        asked["thresholds"] = Thresholds(**thresholds)
    return asked, changes
