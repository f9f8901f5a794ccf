"""The run folder: everything needed to use, judge or resume a training run.

    settings.json        version, recipe and where it came from, settings, the graph and its hash
    entities.parquet     vocabularies: one label per row, in id order
    relations.parquet
    facts.parquet        train, valid and test as ids, with the confidences where there are any
    model.safetensors    the weights of the best epoch so far
    last.safetensors     the latest weights, optimiser and random state: what resuming needs
    model-K-1-of-N.safetensors, last-K-1-of-N.safetensors, ...
                         the columns of each rank, where N ranks train: see shards.py
    metrics.jsonl        one JSON object per epoch

Every file is written beside its place and then moved there, so that a kill at any moment leaves
the old file or the new one, never half of one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import torch
from torch import Tensor

from npugraph.data.io import write_text, written_whole
from npugraph.errors import RunError, writing
from npugraph.graph import KnowledgeGraph, Splits, Vocabulary
from npugraph.model import Model
from npugraph.peers import ALONE, Peers, Share
from npugraph.settings import TrainSettings
from npugraph.training.batch_loss import Training
from npugraph.training.shards import load, read_record, save
from npugraph.version import __version__


@dataclass
class Progress:
    """How far a run has come; grows by one epoch at a time."""

    epoch: int = 0
    best_epoch: int = 0
    best_mrr: float = -math.inf
    bad_validations: int = 0
    finished: bool = False


@dataclass(frozen=True)
class Run:
    """A run folder that exists; where several ranks train, each has opened it."""

    folder: Path
    recipe: str
    settings: dict[str, Any]
    graph: dict[str, Any]
    origin: dict[str, Any] = field(default_factory=dict)
    peers: Peers = ALONE

    @classmethod
    def create(
        cls,
        folder: Path,
        recipe: str,
        settings: TrainSettings,
        splits: Splits,
        origin: dict[str, Any] | None = None,
    ) -> Run:
        """Make the folder and write all that does not change while training.

        ``origin`` says where a recipe comes from that is not of this package.
        """
        if (folder / "settings.json").exists():
            raise RunError(
                f"{folder} already holds a run; continue it with --resume, replace it with "
                "--overwrite, or take another folder."
            )
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_vocabulary(splits.train.entities, folder / "entities.parquet")
        write_vocabulary(splits.train.relations, folder / "relations.parquet")
        _write_facts(splits, folder / "facts.parquet")
        run = cls(folder, recipe, asdict(settings), _describe_graph(splits), origin or {})
        record = {
            "npugraph": __version__,
            "recipe": recipe,
            "recipe_origin": run.origin,
            "settings": run.settings,
            "graph": run.graph,
        }
        write_text(folder / "settings.json", json.dumps(record, indent=2) + "\n")
        return run

    @classmethod
    def open(cls, folder: Path, peers: Peers = ALONE) -> Run:
        """Open an existing run folder, as one of several ranks or alone."""
        path = folder / "settings.json"
        if not path.is_file():
            raise RunError(f"{folder} is not a run folder: it has no settings.json.")
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            origin = record.get("recipe_origin", {})
            return cls(folder, record["recipe"], record["settings"], record["graph"], origin, peers)
        except (json.JSONDecodeError, KeyError) as error:
            raise RunError(f"{path} is damaged ({error}).") from None

    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """Return the names of the entities and of the relations."""
        return (
            read_vocabulary(self.folder / "entities.parquet", "entity"),
            read_vocabulary(self.folder / "relations.parquet", "relation"),
        )

    def splits(self) -> Splits:
        """Return the graph this run was trained on, as ids and labels."""
        entities, relations = self.vocabularies()
        table = pyarrow.parquet.read_table(self.folder / "facts.parquet")
        columns = [table[name].to_numpy() for name in ("head", "relation", "tail")]
        facts = torch.stack([torch.from_numpy(column.copy()) for column in columns], dim=1)
        part = torch.from_numpy(table["part"].to_numpy().copy())
        whole = KnowledgeGraph(entities, relations, facts, _read_confidence(table))
        train, valid, test = (_without_empty(whole.select(part == k)) for k in range(3))
        source, truth = self.graph["source"], self.graph["truth"]
        return Splits(
            self.graph["name"],
            train,
            valid,
            test,
            Path(source) if source else None,
            Path(truth) if truth else None,
            self.graph.get("left_out", 0),
        )

    def check_same(self, recipe: str, settings: TrainSettings, splits: Splits) -> None:
        """Refuse to resume with another recipe, other settings or another graph."""
        if recipe != self.recipe:
            raise RunError(f"{self.folder} was made by recipe {self.recipe!r}, not {recipe!r}.")
        # A setting that the run does not know came later, and was its default before.
        made = {each.name: each.default for each in fields(settings)} | self.settings
        for name, value in asdict(settings).items():
            if value != made[name]:
                raise RunError(
                    f"{self.folder} was made with {name}={made[name]}, not {value}; "
                    "resume with the same settings, or start a new run."
                )
        # Training leaves out what is labelled as wrong.
        if fingerprint(splits.without_wrong()) != self.graph["sha256"]:
            raise RunError(f"{self.folder} was made from another graph than {splits.name!r}.")

    def save_best(self, state: Mapping[str, Tensor], share: Share) -> None:
        """Write the state of a model as the best so far."""
        save(state, {}, self.folder / "model.safetensors", share)

    def best_weights(self, share: Share) -> dict[str, Tensor]:
        """Return the weights of the best epoch, or a rank's share of them."""
        path = self.folder / "model.safetensors"
        if not path.is_file():
            raise RunError(f"{self.folder} has no model yet: its training was never validated.")
        return load(path, share)[0]

    def load_best(self, model: Model) -> None:
        """Load the best weights into a model."""
        model.load_state_dict(self.best_weights(model.share))

    def save_last(
        self, training: Training, optimizer: torch.optim.Optimizer, progress: Progress
    ) -> None:
        """Write all that resuming needs into one file."""
        tensors = {f"model/{name}": tensor for name, tensor in training.state_dict().items()}
        for number, state in optimizer.state_dict()["state"].items():
            for name, value in state.items():
                tensors[f"optimizer/{number}/{name}"] = torch.as_tensor(value)
        tensors["random/cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors["random/cuda"] = torch.cuda.get_rng_state()
        record = {"progress": json.dumps(asdict(progress))}
        save(tensors, record, self.folder / "last.safetensors", _share(training, optimizer))

    def load_last(self, training: Training, optimizer: torch.optim.Optimizer) -> Progress:
        """Restore the latest state; a run that never got to a checkpoint starts anew."""
        path = self.folder / "last.safetensors"
        if not path.is_file():
            return Progress()
        tensors, record = load(path, _share(training, optimizer))
        training.load_state_dict(_below(tensors, "model/"))
        state = _by_number(_below(tensors, "optimizer/"))
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        torch.set_rng_state(tensors["random/cpu"])
        if "random/cuda" in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors["random/cuda"])
        return Progress(**json.loads(record["progress"]))

    def optimizer_state(
        self, training: Training, optimizer: torch.optim.Optimizer
    ) -> dict[int, dict[str, Tensor]]:
        """Return what the optimiser kept of each weight, by its number; nothing: no checkpoint."""
        path = self.folder / "last.safetensors"
        if not path.is_file():
            return {}
        return _by_number(_below(load(path, _share(training, optimizer))[0], "optimizer/"))

    def progress(self) -> Progress:
        """Return how far the run had come at its latest checkpoint."""
        path = self.folder / "last.safetensors"
        if not path.is_file():
            return Progress()
        return Progress(**json.loads(read_record(path)["progress"]))

    def log(self, record: dict[str, Any]) -> None:
        """Append one line to metrics.jsonl; the first rank does it for all."""
        if self.peers.rank:
            return
        path = self.folder / "metrics.jsonl"
        with writing(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl; a last line cut short by a kill is left out."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []
        return [json.loads(line) for line in lines]

    def forget_after(self, epoch: int) -> None:
        """Drop the metrics of epochs that will be trained again; the first rank does it."""
        if self.peers.rank:
            return
        kept = [record for record in self.metrics() if record["epoch"] <= epoch]
        text = "".join(json.dumps(record) + "\n" for record in kept)
        write_text(self.folder / "metrics.jsonl", text)


def fingerprint(splits: Splits) -> str:
    """Return a hash of the labels and the facts, whatever file they came from."""
    digest = hashlib.sha256()
    for words in (splits.train.entities, splits.train.relations):
        for label in words.labels.to_pylist():
            digest.update(label.encode() + b"\0")
    for part in splits.parts().values():
        digest.update(part.facts.numpy().tobytes() + b"\1")
        if part.confidence is not None:
            digest.update(part.confidence.double().numpy().tobytes())
    return digest.hexdigest()


def _describe_graph(splits: Splits) -> dict[str, Any]:
    return {
        **splits.summary(),
        "source": str(splits.source.resolve()) if splits.source else None,
        "truth": str(splits.truth.resolve()) if splits.truth else None,
        "sha256": fingerprint(splits),
    }


def write_vocabulary(words: Vocabulary, path: Path) -> None:
    """Write the labels of a vocabulary, in the order of their ids."""
    with written_whole(path) as temporary:
        pyarrow.parquet.write_table(pa.table({"label": words.labels}), temporary)


def read_vocabulary(path: Path, kind: str) -> Vocabulary:
    """Read what ``write_vocabulary`` has written."""
    try:
        return Vocabulary(pyarrow.parquet.read_table(path)["label"].combine_chunks(), kind)
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise RunError(f"{path} is missing or damaged ({error}).") from None


def _write_facts(splits: Splits, path: Path) -> None:
    facts = splits.all_facts().numpy()
    sizes = [len(part) for part in splits.parts().values()]
    part = torch.repeat_interleave(torch.arange(3, dtype=torch.int8), torch.tensor(sizes))
    columns = {name: facts[:, i] for i, name in enumerate(("head", "relation", "tail"))}
    columns["part"] = part.numpy()
    if any(graph.confidence is not None for graph in splits.parts().values()):
        columns["confidence"] = pa.chunked_array(
            [_confidence(graph) for graph in splits.parts().values()], pa.float64()
        )
    with written_whole(path) as temporary:
        pyarrow.parquet.write_table(pa.table(columns), temporary)


def _confidence(graph: KnowledgeGraph) -> pa.Array:
    """Return the confidences [n] of a part, empty fields where it has none."""
    if graph.confidence is None:
        return pa.nulls(len(graph), pa.float64())
    return pa.array(graph.confidence.double().numpy())


def _read_confidence(table: pa.Table) -> Tensor | None:
    """Return the confidences [n] of the facts, nan for an empty field, or None."""
    if "confidence" not in table.column_names:
        return None
    return torch.from_numpy(table["confidence"].to_numpy().copy())


def _without_empty(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return a part whose confidences, read as nan, are none at all without them."""
    if graph.confidence is None or not graph.confidence.isnan().any():
        return graph
    return replace(graph, confidence=None)


def _share(training: Training, optimizer: torch.optim.Optimizer) -> Share:
    """Return what of a training this rank holds, by the names of a checkpoint."""
    share = training.system.share
    if not share.blocks:
        return share
    blocks = {f"model/system.{name}": count for name, count in share.blocks.items()}
    names = {id(weight): f"model/{name}" for name, weight in training.named_parameters()}
    trained = [weight for group in optimizer.param_groups for weight in group["params"]]
    for number, weight in enumerate(trained):
        # The optimiser's tables are cut as the weights that they belong to.
        if names[id(weight)] in blocks:
            blocks[f"optimizer/{number}"] = blocks[names[id(weight)]]
    return replace(share, blocks=blocks)


def _by_number(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """Return the state of an optimiser, by the number of a weight, of what a checkpoint holds."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, _, name = key.partition("/")
        state.setdefault(int(number), {})[name] = tensor
    return state


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
    }
