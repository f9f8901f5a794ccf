"""Ask a trained system: rank held-out facts, answer questions, score facts, explain one.

All of these take something fitted or its run folder.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import torch
from torch import Tensor

from npugraph.auditing import Audit
from npugraph.auditing.issues import Issues
from npugraph.auditing.statistics.verdict import OF_RELATION, RELIABLE
from npugraph.auditing.views.path import half_of
from npugraph.data.frames import rows_of
from npugraph.data.io import ReadOptions, read_own_table
from npugraph.data.sources import GraphLike
from npugraph.errors import RunError, SettingsError, nearest
from npugraph.explaining import Audited, Explainer, Explanation, Meant, Place, fact_ids, why_untold
from npugraph.explaining import explain as find_evidence
from npugraph.fitting import Fitted, along_validation, load, on_graph
from npugraph.graph import SIDES, KnowledgeGraph, Side
from npugraph.model import Model
from npugraph.names import ReadableNames
from npugraph.ranking import evaluate as ranking
from npugraph.ranking.evaluate import Evaluation, Group, Part, index_of_known
from npugraph.ranking.predict import score_table
from npugraph.ranking.ranks import top_k
from npugraph.settings import as_path

RunLike: TypeAlias = Fitted | str | os.PathLike[str]


def evaluate(
    run: RunLike,
    filters: str | Sequence[str] = ("clean",),
    part: Part = "test",
    *,
    by: Group | Sequence[Group] = (),
    graph: GraphLike = None,
    with_validation: bool = False,
    memory_budget: int | None = None,
    progress: Callable[[int], object] | None = None,
    device: str = "auto",
    trust: bool = False,
) -> Evaluation:
    """Rank the true head and tail of every held-out fact among all entities.

    Args:
        run: something fitted, or its run folder.
        filters: which known facts are no candidates: ``clean``, ``perturbed``, ``raw``, or a file.
        part: which facts to rank, ``test`` or ``valid``.
        by: also metrics by ``relation`` or ``cardinality``.
        graph: rank the facts of another graph with the same relations; for recipes without entity
            vectors, as ``path``.
        with_validation: the validation facts are evidence for the test facts, too; for recipes of
            paths.
        memory_budget: bytes for the scores of a chunk.
        progress: called with the number of queries done since the last call.
        device: where the system of a run folder goes.
        trust: execute the run's own recipe file although it has changed.

    Returns:
        Metrics by filter: ``result["filters"]["clean"]["mrr"]``.
    """
    names, groups = _texts(filters, "filters"), _texts(by, "by")
    check_asked(part, groups)
    fitted = _opened(run, graph, device, trust)
    found = ranking.evaluate(
        _with_validation(fitted, part) if with_validation else fitted,
        names,
        part,
        by=groups,  # type: ignore[arg-type]  # checked above
        memory_budget=memory_budget,
        progress=progress,
    )
    if with_validation:
        found["with_validation"] = True
    return found


def _with_validation(fitted: Fitted, part: str = "test") -> Fitted:
    """Return what was fitted with its validation facts as evidence; refuse to rank these by it."""
    if part == "valid":
        raise SettingsError(
            "The validation facts cannot be evidence while they are ranked themselves; rank the "
            "test facts, or leave the validation facts out of the evidence."
        )
    if len(fitted.splits.valid) == 0:
        raise SettingsError("There are no validation facts to be evidence, too.")
    return along_validation(fitted)


def predict(
    run: RunLike,
    *,
    head: str | None = None,
    relation: str | None = None,
    tail: str | None = None,
    k: int = 10,
    only_new: bool = False,
    with_validation: bool = False,
    device: str = "auto",
    trust: bool = False,
) -> pa.Table:
    """Answer (head, relation, ?) or (?, relation, tail) with the most plausible entities.

    Args:
        run: something fitted, or its run folder.
        head: the known head; asks for tails.
        relation: the relation.
        tail: the known tail; asks for heads.
        k: how many answers.
        only_new: leave out the answers that are known facts.
        with_validation: the validation facts are evidence, too; for recipes of paths.
        device: where the system of a run folder goes.
        trust: execute the run's own recipe file although it has changed.

    Returns:
        Columns rank, label, score, known.
    """
    given = {"head": head, "relation": relation, "tail": tail}
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise SettingsError(f"{name}={value!r} is not a name (text).")
    if relation is None or (head is None) == (tail is None):
        raise SettingsError("Give the relation, and one of head and tail.")
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise SettingsError(f"k={k!r} must be a whole number of at least 1.")
    fitted = load(run, device, trust=trust)
    if with_validation:
        fitted = _with_validation(fitted)
    graph = fitted.splits.train
    side: Side = "head" if head is None else "tail"
    known = graph.entities.id(str(tail if head is None else head))
    found = top_k(
        fitted.system.score_all,
        known,
        graph.relations.id(relation),
        side,
        k,
        index_of_known(fitted),
        only_new=only_new,
    )
    return pa.table(
        {
            "rank": pa.array(range(1, len(found) + 1), pa.int64()),
            "label": pa.array([graph.entities.label(p.entity) for p in found], pa.string()),
            "score": pa.array([p.score for p in found], pa.float64()),
            "known": pa.array([p.known for p in found], pa.bool_()),
        }
    )


def score(
    run: RunLike,
    facts: Any,
    options: ReadOptions | None = None,
    *,
    graph: GraphLike = None,
    device: str = "auto",
    trust: bool = False,
) -> pa.Table:
    """Score any facts, collected or not: one row out for every row in.

    Args:
        run: something fitted, or its run folder.
        facts: a file of facts, a frame, columns, a list of facts, a graph; or an array of ids of
            the run's own graph.
        options: how to read a file, and which columns are which.
        graph: the facts of another graph with the same relations are the evidence; for recipes
            without entity vectors, as ``path``.
        device: where the system of a run folder goes.
        trust: execute the run's own recipe file although it has changed.

    Returns:
        Columns head, relation, tail, score (higher is more plausible), probability (empty where
        the recipe estimates none), collected (it is evidence of the run). A row with a name that
        the graph does not have gets no score.
    """
    run = _no_audit(run)
    rows = rows_of(facts, options or ReadOptions())
    fitted = _opened(run, graph, device, trust)
    if isinstance(rows, Tensor):
        rows = _named(fitted, rows)
    return score_table(fitted, rows)


def _opened(run: RunLike, graph: GraphLike, device: str, trust: bool) -> Fitted:
    """Return what was fitted, on its own graph or on another."""
    fitted = load(run, device, trust=trust)
    return fitted if graph is None else on_graph(fitted, graph)


def _named(fitted: Fitted, ids: Tensor) -> pa.Table:
    """Return the names of ids of the run's graph."""
    graph = fitted.splits.train
    sizes = torch.tensor([graph.num_entities, graph.num_relations, graph.num_entities])
    if (ids >= sizes).any():
        raise SettingsError(
            f"An id is too large: the run's graph has {graph.num_entities:,} entities and "
            f"{graph.num_relations:,} relations, numbered from 0."
        )
    return graph.with_facts(ids).to_table()


def explain(
    run: RunLike | Audit,
    head: str,
    relation: str,
    tail: str,
    *,
    top: int = 5,
    device: str = "auto",
    trust: bool = False,
) -> Explanation:
    """Return the evidence for and against one fact, stored or not.

    With an audit or its folder, a stored fact is ranked by the system that never saw it, and the
    probability is that of the audit. With a run, it is that of the recipe, where it has one.
    A recipe that judges by paths names the strongest ones behind the fact, its own edges hidden.

    Args:
        run: an audit, something fitted, or the folder of either.
        head: name of the head.
        relation: name of the relation.
        tail: name of the tail.
        top: at most so many pieces of evidence of each kind.
        device: where the system of a folder goes.
        trust: execute the run's own recipe file although it has changed.
    """
    fact = (head, relation, tail)
    for name, value in zip(("head", "relation", "tail"), fact, strict=True):
        if not isinstance(value, str):
            raise SettingsError(f"{name}={value!r} is not a name (text).")
    if isinstance(run, Audit):
        return run.explain(fact, top)
    if not isinstance(run, Fitted):
        folder = as_path(run, "a run")
        if (folder / "audit.json").is_file():
            return AuditExplainer(folder, device=device, trust=trust).explain(fact, top)
    fitted = load(run, device, trust=trust)
    graph, system = fitted.splits.train, fitted.system
    ids = fact_ids(graph, fact)
    here = ids.to(system.device)
    found = find_evidence(
        graph,
        ids,
        score_all=system.score_all_without(here),
        paths=system.strongest_paths(here, top),
        top=top,
        device=system.device,
    )
    return dataclasses.replace(found, probability=_probability(system, ids, found.stored))


class AuditExplainer:
    """The folder of an audit, opened to explain many facts: rules and systems are kept.

    A stored fact is ranked by the system that never saw it.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, device: str = "auto", trust: bool = False
    ) -> None:
        """Open nothing yet; ``device`` and ``trust`` are those of :func:`explain`."""
        self.folder = as_path(folder, "an audit")
        self._device, self._trust = device, trust
        self._systems: dict[Path, Model] = {}

    def explain(self, fact: tuple[str, str, str], top: int = 5) -> Explanation:
        """Return the evidence about one fact of names, as given or as shown."""
        fact = _as_given(self.folder, fact)
        judged = _judged(self.folder, fact)
        own, half = self._places((judged.get("fold") or 1) - 1)
        system = self._system(own if own.is_dir() else half)
        by_paths = system
        if not system.hides_stored and (half / "settings.json").is_file():
            by_paths = self._system(half)
        ids = fact_ids(self._explainer.tables.graph, fact)
        here = ids.to(system.device)
        # The explainer wants its questions where the systems are.
        self._explainer.device = system.device
        found = self._explainer.explain(
            ids,
            score_all=system.score_all_without(here),
            paths=by_paths.strongest_paths(here, top),
            top=top,
        )
        told = self._told(fact, judged)
        told = dataclasses.replace(told, issues=self._issues.against(fact)[:top])
        return found.by_audit(told, self._explainer.tables.readable)

    def _told(self, fact: tuple[str, str, str], judged: dict[str, Any]) -> Audited:
        """Return what the audit tells of a fact, by its row of the posterior."""
        told = tuple(judged.get(name) for name in ("probability", "low", "high"))
        place, stored = judged.get("place"), judged.get("collected", True)
        known = judged.get("known")
        listed = _listed(self.folder, fact, "suspects.tsv" if stored else "missing.tsv")
        return Audited(
            told,
            "" if told[0] is not None else _untold(self._record, judged),
            _meant(fact, listed) if stored else None,
            place=None
            if place is None or known is not None
            else Place(place, self._counts[stored], stored, listed=listed is not None),
            known=known,
            column_odds=judged.get("column_odds"),
            columns=tuple(self._record.get("columns", ())),
        )

    @cached_property
    def _issues(self) -> Issues:
        return Issues(read_own_table(self.folder / "issues.tsv"))

    @cached_property
    def _record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(
            (self.folder / "audit.json").read_text(encoding="utf-8")
        )
        return record

    @cached_property
    def _counts(self) -> dict[bool, int]:
        """How many distinct facts were judged: stored and proposed ones."""
        path, names = self.folder / "posterior.parquet", ["collected", "place"]
        rows = pyarrow.parquet.read_table(path, columns=names)
        return {
            stored: pc.max(rows.filter(pc.equal(rows["collected"], stored))["place"]).as_py() or 0
            for stored in (True, False)
        }

    def _places(self, fold: int) -> tuple[Path, Path]:
        """Return where the systems of a fold are: its own, and the one that judges by paths."""
        return (
            self.folder / "folds" / f"fold-{fold + 1}",
            self.folder / "path" / f"fold-{half_of(fold) + 1}",
        )

    @cached_property
    def _explainer(self) -> Explainer:
        own, half = self._places(0)
        place = own if own.is_dir() else half
        graph = load(place, self._device, trust=self._trust).splits.train
        graph = _audited(self.folder, graph)
        return Explainer(graph, readable=_readable(self.folder, graph))

    def _system(self, place: Path) -> Model:
        if place not in self._systems:
            system = load(place, self._device, trust=self._trust).system
            if system.hides_stored:
                # Trained on half of the facts; all of them are evidence.
                system = system.on_graph(self._explainer.tables.graph)
            self._systems[place] = system.eval()
        return self._systems[place]


def _untold(record: dict[str, Any], judged: dict[str, Any]) -> str:
    """Return why an audit tells no probability of a fact."""
    verdict = "verdict" if judged.get("collected", True) else "missing_verdict"
    level, why = record[verdict], record[f"{verdict}_reason"]
    if judged and level == RELIABLE:
        # Of the other facts it does.
        level, why = OF_RELATION.level, OF_RELATION.why
    return why_untold(bool(judged), level, why)


def _listed(folder: Path, fact: tuple[str, str, str], name: str) -> dict[str, str] | None:
    """Return the row of a fact in a list of an audit, where it is there."""
    table = read_own_table(folder / name)
    if not len(table):
        return None
    same = None
    for column, value in zip(("head", "relation", "tail"), fact, strict=True):
        equal = pc.equal(table[column], value)
        same = equal if same is None else pc.and_(same, equal)
    rows: list[dict[str, str]] = table.filter(same).to_pylist()
    return rows[0] if rows else None


def _meant(fact: tuple[str, str, str], row: dict[str, str] | None) -> Meant | None:
    """Return what an audit proposes instead of a suspect, by its row of the list."""
    if row is None:
        return None
    if row["replace"]:
        side: Side = "head" if row["replace"] == "head" else "tail"
        return Meant.instead_of(fact, side, row["by"], stored=False)
    for side in SIDES:
        if row.get(f"stored_{side}", "") not in ("", row[side]):
            return Meant.instead_of(fact, side, row[f"stored_{side}"], stored=True)
    return None


def _as_given(folder: Path, fact: tuple[str, str, str]) -> tuple[str, str, str]:
    """Return the names of a fact as the audit's input has them; they may be given as shown."""
    path = folder / "names.parquet"
    if not path.is_file():
        return fact
    asked = pc.field("shown").isin(list(fact))
    found: dict[str, list[str]] = {}
    for row in pyarrow.parquet.read_table(path, filters=asked).to_pylist():
        found.setdefault(row["shown"], []).append(row["name"])
    head, relation, tail = (found[n][0] if len(found.get(n, ())) == 1 else n for n in fact)
    return head, relation, tail


def _readable(folder: Path, graph: KnowledgeGraph) -> ReadableNames | None:
    """Return how the audit's names are shown; None: as the graph says."""
    path = folder / "names.parquet"
    if not path.is_file():
        return None
    name, shown = (pyarrow.parquet.read_table(path)[c].to_pylist() for c in ("name", "shown"))
    names = [graph.entities.labels, graph.relations.labels]
    return ReadableNames(names, shown=dict(zip(name, shown, strict=True)))


def _judged(folder: Path, fact: tuple[str, str, str]) -> dict[str, Any]:
    """Return the row of a fact in an audit's posterior, empty where it was not judged."""
    same = (pc.field("head") == fact[0]) & (pc.field("relation") == fact[1])
    same = same & (pc.field("tail") == fact[2])
    rows = pyarrow.parquet.read_table(folder / "posterior.parquet", filters=same).to_pylist()
    return rows[0] if rows else {}


def _audited(folder: Path, graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return the facts that an audit judged: a fold's facts have its planted ones among them."""
    judged = pc.field("collected") & pc.field("fold").is_valid()
    rows = pyarrow.parquet.read_table(folder / "posterior.parquet", filters=judged)
    ends = (graph.entities.ids(rows["head"]), graph.entities.ids(rows["tail"]))
    facts = torch.stack([ends[0], graph.relations.ids(rows["relation"]), ends[1]], 1)
    return graph.with_facts(facts)


@torch.no_grad()
def _probability(system: Model, fact: Tensor, stored: bool) -> float | None:
    """Return the probability that a system of its own gives a fact [3], where it has one."""
    facts = fact.unsqueeze(0).to(system.device)
    value = system.probability(facts, torch.tensor([stored], device=system.device))
    return None if value is None or value[0].isnan() else float(value[0])


def _no_audit(run: RunLike) -> RunLike:
    """Refuse the folder of an audit: it has a system per fold, and no one that scores facts."""
    if not isinstance(run, Fitted):
        folder = as_path(run, "a run")
        if (folder / "audit.json").is_file():
            raise RunError(
                f"{folder} is the folder of an audit; score takes a run of fit. The probabilities "
                f"of the audited facts are in {folder / 'posterior.parquet'}."
            )
    return run


def _texts(given: object, name: str) -> list[str]:
    """Return one text or several as a list."""
    texts = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(texts, Sequence) or not all(isinstance(t, str | os.PathLike) for t in texts):
        raise SettingsError(f"{name}={given!r} must be a text or a list of texts.")
    return [os.fspath(text) for text in texts]


def check_asked(part: str, groups: Sequence[str]) -> None:
    """Refuse a part or a grouping that ``evaluate`` does not know, before anything is opened."""
    asked = [(part, get_args(Part)), *((group, get_args(Group)) for group in groups)]
    for value, allowed in asked:
        if not isinstance(value, str) or value not in allowed:
            hint = nearest(str(value), allowed) or f" Use {' or '.join(allowed)}."
            raise SettingsError(f"{value!r} cannot be ranked or grouped by.{hint}")
