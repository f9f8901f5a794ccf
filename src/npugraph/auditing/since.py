"""What was added to a graph since an earlier audit, and when a full audit is due."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.auditing.earlier import FACT, GIVEN, Earlier, given_values
from npugraph.auditing.folds import Folds
from npugraph.auditing.missing import same_question
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.verdict import ORDER, Verdict
from npugraph.auditing.thresholds import Thresholds
from npugraph.errors import NothingAddedError, SettingsError
from npugraph.graph import KnowledgeGraph
from npugraph.names import counted
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, make_settings

Bools = NDArray[np.bool_]
T = TypeVar("T", bound=TrainSettings)
# Systems that are there are trained for this part of the epochs of a full audit.
EPOCHS_SHARE = 0.25


@dataclass(frozen=True)
class Changes:
    """What is new since an earlier audit. Facts are those that are judged, each once.

    Attributes:
        new: bool [n], which facts were added, or are given with other values.
        added: how many were not judged then.
        changed: how many were, with another confidence, label or column.
        removed: how many were judged then and are not now.
        unchanged: how many are as they were.
        entities: how many entities are new.
        relations: the names of new relations.
    """

    new: Bools = field(repr=False)
    added: int
    changed: int
    removed: int
    unchanged: int
    entities: int
    relations: tuple[str, ...]


@dataclass(frozen=True)
class Since:
    """How an audit came of an earlier one.

    Attributes:
        earlier: the earlier one.
        changes: what is new.
        chain: how many audits there were since the last full one, this one included.
        since_full: how many facts were added or changed since the last full one.
        epochs: of the last full one.
        full: ``mrr`` and ``auroc``, of validation and self-test, of the last full one.
        mrr: of validation now.
        due: why a full audit is due, one sentence each; empty: it is not.
    """

    earlier: Earlier
    changes: Changes
    chain: int
    since_full: int
    epochs: int
    full: Mapping[str, float]
    mrr: float = math.nan
    due: tuple[str, ...] = ()

    @property
    def new(self) -> Bools:
        """Which distinct facts [n] are new."""
        return self.changes.new

    def settings_of(self, within: str, training: T) -> T:
        """Return the settings of systems that are there, for as few epochs of ``training``."""
        kept = self.earlier.start(within, 0, trains=False).run.settings
        new = {"device": training.device, "epochs": few_epochs(training.epochs)}
        return make_settings(type(training), {**kept, **new})

    def to_record(self) -> dict[str, Any]:
        """Return it for audit.json."""
        changes = {n: v for n, v in asdict(self.changes).items() if n != "new"}
        return {
            "audit": self.earlier.folder.name,
            "sha256": self.earlier.digest,
            **changes,
            "relations": list(self.changes.relations),
            "chain": self.chain,
            "since_full": self.since_full,
            "epochs": self.epochs,
            "full": dict(self.full),
            "mrr": round(self.mrr, 5),
            "full_audit_due": bool(self.due),
            "due": list(self.due),
        }

    def sentence(self) -> str:
        """Say what is new."""
        changes = self.changes
        counts = {
            "added": changes.added,
            "changed": changes.changed,
            "removed": changes.removed,
            "unchanged": changes.unchanged,
        }
        said = ", ".join(f"{count:,} {word}" for word, count in counts.items())
        return (
            f"Since {self.earlier.folder.name}: {said}; "
            f"{counted(changes.entities, 'new entity', 'new entities')}, "
            f"{counted(len(changes.relations), 'new relation')}. What is listed is of the facts "
            "that were added or changed."
        )


def settings_since(earlier: Earlier, settings: object) -> AuditSettings:
    """Return the settings of an audit that goes on from an earlier one.

    What is not given is as it was; what the systems rest on must be.

    Args:
        earlier: the earlier audit.
        settings: given settings: a mapping of those that differ, or all of them, or None.
    """
    old = make_settings(AuditSettings, earlier.asked)
    if isinstance(settings, AuditSettings):
        asked = settings if settings.views else replace(settings, views=old.views)
    else:
        given = dict(settings) if isinstance(settings, Mapping) else {}
        thresholds = {n: given.pop(n) for n in ("thresholds",) if n in given}
        asked = make_settings(AuditSettings, {**earlier.asked, **given})
        asked = replace(asked, **thresholds)
    for name in ("recipe", "folds"):
        before, now = getattr(old, name), getattr(asked, name)
        if before != now:
            raise SettingsError(
                f"{earlier.folder} was made with {name}={before}, not {now}; its systems are gone "
                "on with, so leave that as it was, or audit without --since."
            )
    return replace(asked, search=False)


def changes_since(graph: KnowledgeGraph, earlier: Earlier) -> Changes:
    """Compare the distinct facts of a graph, in key order, with those of an earlier audit."""
    ids = earlier.ids(graph)
    stored = torch.from_numpy(earlier.facts["stored"].to_numpy(zero_copy_only=False).copy())
    known = (ids >= 0).all(1)
    place = torch.full((len(graph),), -1)
    at = graph.index().places(ids[known & stored])
    rows = torch.nonzero(known & stored).squeeze(1)
    place[at[at >= 0]] = rows[at >= 0]
    old = place >= 0
    changed = torch.zeros(len(graph), dtype=torch.bool)
    changed[old] = torch.from_numpy(_differ(graph.select(old), earlier, place[old]))
    before = {name: pc.unique(earlier.facts.filter(earlier.facts["stored"])[name]) for name in FACT}
    entities = pc.or_(
        pc.is_in(graph.entities.labels, value_set=before["head"]),
        pc.is_in(graph.entities.labels, value_set=before["tail"]),
    )
    relations = pc.is_in(graph.relations.labels, value_set=before["relation"])
    # A vocabulary may hold names that no judged fact has.
    used = torch.bincount(graph.facts[:, 1], minlength=graph.num_relations) > 0
    fresh = used.numpy() & ~relations.to_numpy(zero_copy_only=False)
    return Changes(
        new=(~old | changed).numpy(),
        added=int((~old).sum()),
        changed=int(changed.sum()),
        removed=int(stored.sum()) - int(old.sum()),
        unchanged=int((old & ~changed).sum()),
        entities=int((~entities.to_numpy(zero_copy_only=False)).sum()),
        relations=tuple(graph.relations.label(int(number)) for number in np.nonzero(fresh)[0]),
    )


def _differ(graph: KnowledgeGraph, earlier: Earlier, rows: Tensor) -> Bools:
    """Tell which facts [n] are given with other values than in the rows [n] of the history.

    A column that only one of the two has says nothing of a change.
    """
    found = np.zeros(len(graph), dtype=bool)
    for name, values in given_values(graph).items():
        if GIVEN + name in earlier.facts.column_names:
            before = earlier.facts[GIVEN + name].take(rows.numpy()).combine_chunks()
            same = pc.equal(pc.fill_null(before, "\0"), pc.fill_null(values, "\0"))
            found |= ~same.to_numpy(zero_copy_only=False)
    return found


def begin_since(graph: KnowledgeGraph, earlier: Earlier) -> Since:
    """Return what is new in a graph of distinct facts; where nothing is, there is no audit."""
    changes = changes_since(graph, earlier)
    if not changes.new.any():
        gone = f"; {changes.removed:,} are gone" if changes.removed else ""
        raise NothingAddedError(
            f"No fact was added or changed since {earlier.folder.name}{gone}, so there is nothing "
            "to judge."
        )
    for within, count in earlier.systems.items():
        # What is missing is told before anything is trained.
        for fold in range(count):
            earlier.start(within, fold, trains=False)
    before = earlier.since
    return Since(
        earlier,
        changes,
        chain=int(before.get("chain", 0)) + 1,
        since_full=int(before.get("since_full", 0)) + changes.added + changes.changed,
        epochs=int(before.get("epochs", earlier.record["training"]["epochs"])),
        full=before.get("full") or _figures(earlier),
    )


def _figures(earlier: Earlier) -> dict[str, float]:
    """Return what later audits are compared with, of a full one."""
    # Those of the first view that ranks entities.
    within, count = next((name, n) for name, n in earlier.systems.items() if name != "pairs")
    runs = [earlier.start(within, fold, trains=False).run for fold in range(count)]
    return {
        "mrr": sum(run.progress().best_mrr for run in runs) / count,
        "auroc": float(earlier.record["self_test"]["auroc"]),
    }


def training_since(
    since: Since, kind: type[TrainSettings], device: str, changes: Mapping[str, Any] | None
) -> TrainSettings:
    """Return the settings that the systems are gone on with: theirs, and fewer epochs."""
    kept = {**since.earlier.record["training"], "device": device}
    return make_settings(kind, {**kept, "epochs": few_epochs(since.epochs), **dict(changes or {})})


def few_epochs(epochs: int) -> int:
    """Return how many epochs a system is gone on with that takes so many from the beginning."""
    return math.ceil(EPOCHS_SHARE * epochs)


def folds_since(graph: KnowledgeGraph, since: Since, settings: AuditSettings) -> Folds:
    """Put every distinct fact of a graph into the fold whose system never saw it.

    That is the fold of the history where it has one; the others are spread evenly.
    """
    earlier, count = since.earlier, settings.folds
    ids = earlier.ids(graph)
    known = (ids >= 0).all(1)
    fold = torch.full((len(graph),), -1)
    before = torch.from_numpy(earlier.facts["fold"].to_numpy().copy()) - 1
    at = graph.index().places(ids)
    here = known & (at >= 0)
    fold[at[here]] = before[here]
    fresh = torch.nonzero(fold < 0).squeeze(1)
    order = torch.randperm(len(fresh), generator=generator(settings.seed, "folds", since.chain))
    fold[fresh[order]] = torch.arange(len(fresh)) % count
    seen = ids[known & (at < 0)]
    return Folds(graph, fold, count, seen=seen, new=torch.from_numpy(since.new))


def end_since(since: Since, mrr: float, auroc: float, thresholds: Thresholds) -> Since:
    """Return it with the reasons why a full audit is due.

    Args:
        since: what is new.
        mrr: of validation, the mean of the systems.
        auroc: of the self-test.
        thresholds: what was tuned.
    """
    changes, due = since.changes, []
    facts = changes.added + changes.changed + changes.unchanged
    share = since.since_full / facts
    if share > thresholds.since_share:
        due.append(f"{share:.0%} of the facts came or changed after the last full audit.")
    if changes.relations:
        due.append(
            f"{counted(len(changes.relations), 'relation is', 'relations are')} new, such as "
            f"{changes.relations[0]!r}: the systems know of new ones by a short training alone."
        )
    if since.chain >= thresholds.since_chain:
        due.append(f"It is the {since.chain}th audit in a row that goes on from another.")
    if mrr < thresholds.since_mrr * since.full["mrr"]:
        due.append(
            f"Validation facts rank worse than in the last full audit (MRR {mrr:.3f} against "
            f"{since.full['mrr']:.3f})."
        )
    if auroc < since.full["auroc"] - thresholds.since_auroc:
        due.append(
            f"Planted facts are told from new ones less well than from all in the last full audit "
            f"(AUROC {auroc:.2f} against {since.full['auroc']:.2f})."
        )
    return replace(since, mrr=mrr, due=tuple(due))


def limited(verdict: Verdict, since: Since | None, thresholds: Thresholds) -> Verdict:
    """Return a verdict that promises no count where too few facts are new."""
    if since is None or not verdict.reliable:
        return verdict
    count = int(since.new.sum())
    if count >= thresholds.since_facts:
        return verdict
    why = (
        f"Only {counted(count, 'fact was', 'facts were')} added or changed; at least "
        f"{thresholds.since_facts} are needed to tell how many of them are wrong."
    )
    return Verdict(ORDER, why)


def touches(facts: Tensor, graph: KnowledgeGraph, since: Since) -> Bools:
    """Tell which facts [m, 3] answer a question of a new fact: (h, r, ?) or (?, r, t).

    Questions of a new entity are among these: it is in new facts alone.
    """
    new = graph.facts[torch.from_numpy(since.new)]
    return same_question(facts, new, graph.num_entities, graph.num_relations).numpy()
