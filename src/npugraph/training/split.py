"""Split a training over ranks: each keeps some of the dimensions, or asks some of the questions.

All else is the same on every rank.
"""

from __future__ import annotations

from npugraph.encoders import Lookup
from npugraph.errors import SettingsError
from npugraph.model import System
from npugraph.objectives import Margin, SelfAdversarial, SoftmaxN3
from npugraph.peers import Peers, Share
from npugraph.samplers import SANS, AllEntities, Uniform
from npugraph.settings import TrainSettings
from npugraph.training.batch_loss import PlainTraining, Training

# They see scores, facts and sums over dimensions, which are the same on every rank. Exact types: a
# subclass may look at vectors.
SAMPLERS = (AllEntities, Uniform, SANS)
OBJECTIVES = (Margin, SelfAdversarial, SoftmaxN3)
CAN_BE_SPLIT = (
    "transe (p=1), distmult, complex, rotate, sans, complex-n3, path and npugraph-path (members=1)"
)


def split(training: Training, settings: TrainSettings, peers: Peers) -> None:
    """Make a training that was built whole, so that all start alike, this rank's share of it.

    What cannot be split is refused.
    """
    if peers.size == 1:
        return
    system = training.system
    if training.by_questions:
        system.share = Share(peers)
        return
    if (
        type(training) is not PlainTraining
        or type(system) is not System
        or type(system.encoder) is not Lookup
        or type(training.sampler) not in SAMPLERS
        or type(training.objective) not in OBJECTIVES
    ):
        raise _refused("it learns from more than sums over dimensions")
    part = system.scorer.part(peers)
    if part is None or any(True for _ in part.parameters()):
        raise _refused("its score is no sum over dimensions")
    if settings.clip:
        raise SettingsError(
            f"clip={settings.clip} looks at the whole gradient, and a rank has a part of it; train "
            "in one process, or set clip=0."
        )
    tables = system.encoder
    blocks = {"entities": part.entity_width(1), "relations": part.relation_width(1)}
    dimensions = tables.entities.shape[1] // blocks["entities"]
    if dimensions < peers.size:
        raise SettingsError(
            f"{peers.size} ranks cannot share {dimensions} dimensions: each needs at least one; "
            "take fewer ranks, or more dimensions (d)."
        )
    share = Share(peers, dimensions, {f"encoder.{name}": count for name, count in blocks.items()})
    for name, count in blocks.items():
        table = getattr(tables, name)
        table.data = share.cut(table.data, count)
    system.scorer, system.share = part, share
    training.objective.peers = peers


def _refused(why: str) -> SettingsError:
    return SettingsError(
        f"This recipe cannot be split over ranks: {why}. Train it in one process; {CAN_BE_SPLIT} "
        "can be split."
    )
