"""Start a training from what another run of the same recipe has learned, name by name.

The ids of entities and relations change when names come and go, so rows of weights are taken by
name. What the optimiser knows of a row comes along: the steps of old rows are as small as they
were, those of new ones as large as at any beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow.compute as pc
import torch
from torch import Tensor

from npugraph.errors import RunError, SettingsError
from npugraph.graph import KnowledgeGraph, Vocabulary
from npugraph.training.batch_loss import Training
from npugraph.training.run_folder import Run


@dataclass(frozen=True)
class Start:
    """Where a training starts.

    Attributes:
        run: a run of the same recipe.
        trains: False takes its system as it is: it is validated, and nothing is trained.
    """

    run: Run
    trains: bool = True


def start_from(
    run: Run, training: Training, optimizer: torch.optim.Optimizer, train: KnowledgeGraph
) -> None:
    """Take the weights of a run for all names that it knows; the others stay as they are.

    Args:
        run: where to take them from: the weights of its best epoch, the optimiser of its last.
        training: what was built for the new graph.
        optimizer: its optimiser.
        train: the new graph.
    """
    system = training.system
    named = system.rows_by_name()
    if named is None:
        raise SettingsError(
            f"The recipe {run.recipe} cannot start from what an earlier run has learned: it keeps "
            "more than vectors of entities and relations; train anew."
        )
    entities, relations = run.vocabularies()
    twins = 2 if getattr(system, "reciprocal", False) else 1
    rows = {
        "entity": _Rows(places(train.entities, entities), len(entities), 1),
        "relation": _Rows(places(train.relations, relations), len(relations), twins),
    }
    of = {name: rows[kind] for name, kind in named.items()}
    weights = run.best_weights(system.share)
    own = system.state_dict()
    try:
        system.load_state_dict({name: _taken(of, name, own[name], weights[name]) for name in own})
        _take_steps(run, training, optimizer, of)
    except (KeyError, RuntimeError) as error:
        raise RunError(
            f"{run.folder} was made with other settings, or by another version: its weights do not "
            f"fit ({error})."
        ) from None


def places(words: Vocabulary, among: Vocabulary) -> Tensor:
    """Return the id that each of some names [n] has in another vocabulary, -1 where it has none.

    >>> places(Vocabulary.of(["a", "b"]), Vocabulary.of(["b", "c"])).tolist()
    [-1, 0]
    """
    found = pc.fill_null(pc.index_in(words.labels, value_set=among.labels), -1)
    return torch.from_numpy(found.to_numpy(zero_copy_only=False).astype("int64"))


@dataclass(frozen=True)
class _Rows:
    """Which rows of an old tensor are those of a new one.

    Attributes:
        place: the old id of each new name [n], -1 for a name that is new.
        count: how many names there were.
        twins: how many parts a tensor has, one after the other, with rows for all names each.
    """

    place: Tensor
    count: int
    twins: int

    def taken(self, new: Tensor, old: Tensor) -> Tensor:
        """Return ``new`` with the rows of known names as in ``old``."""
        if not new.numel():
            return new
        place = self.place.to(new.device)
        known = place >= 0
        after = new.clone().view(self.twins, len(place), -1)
        before = old.to(new.device).view(self.twins, self.count, -1)
        after[:, known] = before[:, place[known]]
        return after.view_as(new)


def _taken(of: Mapping[str, _Rows], name: str, new: Tensor, old: Tensor) -> Tensor:
    """Return the tensor of a name: row by row where it has rows per name, whole otherwise."""
    return of[name].taken(new, old) if name in of else old


def _take_steps(
    run: Run, training: Training, optimizer: torch.optim.Optimizer, of: Mapping[str, _Rows]
) -> None:
    """Take what the optimiser of a run knows of each weight; nothing where it was not kept."""
    kept = run.optimizer_state(training, optimizer)
    if not kept:
        return
    names = {id(weight): name for name, weight in training.system.named_parameters()}
    trained = [weight for group in optimizer.param_groups for weight in group["params"]]
    state = optimizer.state_dict()
    for number, weight in enumerate(trained):
        # A sampler's own weights are not taken, so neither are their steps.
        if id(weight) not in names or number not in kept:
            continue
        name, own = names[id(weight)], {}
        for key, value in kept[number].items():
            if value.dim() == 0:
                own[key] = value
                continue
            # As many numbers per row as the old one has: all, or one.
            empty = value.new_zeros(weight.shape[0], *value.shape[1:])
            own[key] = _taken(of, name, empty, value)
        state["state"][number] = own
    optimizer.load_state_dict(state)
