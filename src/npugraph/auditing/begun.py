"""Which audit a folder belongs to: remembered when it is begun, compared when it goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.since import Since
from npugraph.data.io import write_text
from npugraph.errors import RunError, writing
from npugraph.graph import KnowledgeGraph

# What the trained systems follow from; the other settings may change from call to call.
TRAINING = ("recipe", "folds", "search", "kinds", "self_test", "tested", "device", "seed")


def begin(
    out: Path,
    graph: KnowledgeGraph,
    settings: AuditSettings,
    changes: Mapping[str, Any],
    known_wrong: Tensor,
    since: Since | None = None,
) -> None:
    """Remember in ``out`` what an audit is of; refuse a folder that holds another one.

    Raises:
        RunError: the folder holds the audit of another graph, or one with other settings or other
            facts that are known to be wrong, for these are not trained on.
    """
    path = out / "begun.json"
    wanted: dict[str, Any] = {
        "graph": _fingerprint(graph),
        "known_wrong": hashlib.sha256(known_wrong.numpy().tobytes()).hexdigest(),
        "settings": {
            **{name: settings.asked()[name] for name in TRAINING},
            **{name: str(value) for name, value in changes.items()},
            **({} if since is None else {"since": since.earlier.digest[:12]}),
        },
    }
    if path.is_file():
        _compare(out, path, wanted)
        return
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(wanted, indent=2) + "\n")


def _compare(out: Path, path: Path, wanted: dict[str, Any]) -> None:
    remedy = "take another folder, or replace it with --overwrite"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        old = dict(found["settings"])
        same_graph, same_wrong = (found[n] == wanted[n] for n in ("graph", "known_wrong"))
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path} is damaged; {remedy}.") from None
    if not same_graph:
        raise RunError(f"{out} holds the audit of another graph; {remedy}.")
    if not same_wrong:
        raise RunError(
            f"{out} holds an audit that knew of other wrong facts, and did not train on them; "
            f"{remedy}."
        )
    new = wanted["settings"]
    for name in (*new, *old):
        if old.get(name) != new.get(name):
            before, now = (
                f"{name}={values[name]}" if name in values else f"no {name}="
                for values in (old, new)
            )
            raise RunError(f"{out} holds an audit with {before}, not {now}; {remedy}.")


def _fingerprint(graph: KnowledgeGraph) -> str:
    """Return a hash of all that the input says, whatever file it came from."""
    digest = hashlib.sha256()
    for words in (graph.entities, graph.relations):
        for label in words.labels.to_pylist():
            digest.update(label.encode("utf-8", "surrogatepass") + b"\0")
    for column in (graph.facts, graph.confidence, graph.label):
        digest.update(b"\1" if column is None else column.numpy().tobytes() + b"\2")
    return digest.hexdigest()
