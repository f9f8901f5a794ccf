"""What is known of stored facts: by the label column of the input, and by answers of people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from npugraph.arrays import Floats, Ints
from npugraph.auditing.statistics.answers import CHOSEN, LEAST_ANSWERS, RANDOM, UNKNOWN, Check
from npugraph.calibration.class_priors import Interval
from npugraph.data.answers import AnswerRows, read_answers
from npugraph.errors import DataError
from npugraph.graph import KnowledgeGraph, TripleIndex
from npugraph.names import counted, shorten

RIGHT, WRONG, UNSURE = 1, 0, -1
ORIGIN = {"random": RANDOM, "chosen": CHOSEN, "": UNKNOWN}


@dataclass(frozen=True)
class Answers:
    """Answers on distinct stored facts. A label of the input is one of unknown origin.

    Attributes:
        facts: int64 [m, 3], in key order.
        said: RIGHT, WRONG or UNSURE [m]; who contradict one another are unsure together.
        drawn: RANDOM, CHOSEN or UNKNOWN [m]; random where one of its answers is.
        chance: of having been drawn [m]; nan where all had the same.
        contradicted: bool [m], called right by one answer and wrong by another.
        labelled: facts that have a label in the input.
        rejected: int64 [k, 3], facts called wrong that are not stored.
        absent: answers on facts that are not stored.
        first_absent: the first of them.
        open: rows of the file without an answer.
    """

    facts: Tensor
    said: Ints
    drawn: Ints
    chance: Floats
    contradicted: np.ndarray[Any, np.dtype[np.bool_]]
    labelled: int
    rejected: Tensor
    absent: int = 0
    first_absent: str = ""
    open: int = 0

    @property
    def right(self) -> Tensor:
        """Facts that are known to be right [n, 3]."""
        return self.facts[torch.from_numpy(self.said == RIGHT)]

    @property
    def wrong(self) -> Tensor:
        """Facts that are known to be wrong [n, 3]."""
        return self.facts[torch.from_numpy(self.said == WRONG)]

    @property
    def both(self) -> Tensor:
        """Facts on which answers contradict one another [n, 3]."""
        return self.facts[torch.from_numpy(self.contradicted)]

    @property
    def never_proposed(self) -> Tensor:
        """Facts that are wrong, stored or not [n, 3]."""
        return torch.cat([self.wrong, self.rejected])


@dataclass(frozen=True)
class Learned:
    """What answers taught.

    Attributes:
        used: answers that were learned from; 0 where there are too few.
        random: answers that the share of wrong facts rests on; 0 where there are too few.
        share: of wrong facts among all that are stored, by the random answers alone.
        check: whether the answers carry the probabilities by themselves.
        kept: whether the probabilities stayed: they held, and the answers agree with them.
    """

    used: int = 0
    random: int = 0
    share: Interval | None = None
    check: Check | None = None
    kept: bool = False

    @property
    def carries(self) -> bool:
        """Whether the answers alone are reason to trust the probabilities."""
        return self.check is not None and self.check.holds

    @property
    def lacking(self) -> str:
        """Which answers there are too few of, as a sentence; empty where nothing is lacking."""
        return "" if self.check is None or self.check.enough else self.check.reason

    @property
    def refutes(self) -> bool:
        """Whether the answers are reason not to trust the probabilities."""
        return self.check is not None and self.check.enough and not self.check.holds


def gather_answers(graph: KnowledgeGraph, given: Any = None) -> Answers:
    """Return what is known of the facts of a graph, by its labels and by answers.

    Args:
        graph: the graph as given.
        given: answers, as :func:`read_answers` takes them; None for none.
    """
    index = graph.index()
    rows = None if given is None else read_answers(given)
    labelled = _labels(graph)
    asked, facts, stored = _encoded(graph, index, rows)
    every = torch.cat([labelled[0], facts[stored]])
    said = np.concatenate([labelled[1], asked["said"][stored.numpy()]]).astype(np.int64)
    drawn = np.concatenate([np.full(len(labelled[0]), UNKNOWN), asked["drawn"][stored.numpy()]])
    chance = np.concatenate([np.full(len(labelled[0]), np.nan), asked["chance"][stored.numpy()]])
    _check_chances(drawn, chance)
    places, group = np.unique(index.places(every).numpy(), return_inverse=True)
    count = len(places)
    right, wrong = (np.bincount(group, said == value, count) > 0 for value in (RIGHT, WRONG))
    origin = np.full(count, UNKNOWN)
    np.minimum.at(origin, group, drawn.astype(np.int64))
    chances = np.full(count, np.nan)
    chances[group[drawn == RANDOM]] = chance[drawn == RANDOM]
    absent = np.flatnonzero(~stored.numpy())
    known = (facts >= 0).all(1)
    rejected = facts[~stored & known & torch.from_numpy(asked["said"] == WRONG)]
    return Answers(
        index.facts()[places],
        np.where(right & ~wrong, RIGHT, np.where(wrong & ~right, WRONG, UNSURE)),
        origin,
        chances,
        right & wrong,
        len(np.unique(index.places(labelled[0]).numpy())),
        rejected,
        len(absent),
        "" if rows is None or not len(absent) else _named(rows.facts, int(absent[0])),
        0 if rows is None else rows.open,
    )


def _labels(graph: KnowledgeGraph) -> tuple[Tensor, Ints]:
    """Return the rows of a graph that have a label, and the labels."""
    if graph.label is None:
        return graph.facts[:0], np.zeros(0, dtype=np.int64)
    has = graph.label >= 0
    return graph.facts[has], graph.label[has].numpy().astype(np.int64)


def _encoded(
    graph: KnowledgeGraph, index: TripleIndex, rows: AnswerRows | None
) -> tuple[dict[str, Any], Tensor, Tensor]:
    """Return the answers as arrays, their facts as ids (-1: no such name), and which are stored."""
    if rows is None or not rows.said:
        empty = {name: np.zeros(0) for name in ("said", "drawn", "chance")}
        return empty, graph.facts[:0], torch.zeros(0, dtype=torch.bool)
    columns = [
        pc.fill_null(pc.index_in(rows.facts[name], value_set=words.labels), -1)
        for name, words in (
            ("head", graph.entities),
            ("relation", graph.relations),
            ("tail", graph.entities),
        )
    ]
    facts = torch.tensor(np.stack([c.to_numpy() for c in columns], 1), dtype=torch.int64)
    stored = (facts >= 0).all(1)
    stored[stored.clone()] = index.contains(facts[stored])
    arrays = {
        "said": np.array(rows.said),
        "drawn": np.array([ORIGIN[word] for word in rows.drawn]),
        "chance": np.array([np.nan if c is None else c for c in rows.chance]),
    }
    return arrays, facts, stored


def _check_chances(drawn: Ints, chance: Floats) -> None:
    told = np.isfinite(chance[drawn == RANDOM])
    if told.any() and not told.all():
        raise DataError(
            f"{int(told.sum()):,} random answers say with what chance their fact was drawn and "
            f"{int((~told).sum()):,} do not; fill the column chance for all of them, or for none."
        )


def _named(facts: pa.Table, row: int) -> str:
    return f"({', '.join(shorten(facts[name][row].as_py()) for name in facts.column_names)})"


def record(answers: Answers, learned: Learned) -> dict[str, Any]:
    """Return what became of the answers, for JSON."""
    check = learned.check
    return {
        "facts": len(answers.facts),
        "labelled": answers.labelled,
        "right": len(answers.right),
        "wrong": len(answers.wrong),
        "unsure": int((answers.said == UNSURE).sum()),
        "contradicted": int(answers.contradicted.sum()),
        "not_stored": answers.absent,
        "unanswered_rows": answers.open,
        "behind_probabilities": 0 if learned.kept else learned.used,
        "behind_share": learned.random,
        "carry_probabilities": None if check is None else check.holds,
        "reason": "" if check is None else check.reason,
    }


def sentences(answers: Answers, learned: Learned) -> tuple[str, ...]:
    """Return what became of the answers, for people."""
    return (*_known(answers), *_left_out(answers), *_taught(answers, learned))


def _known(answers: Answers) -> list[str]:
    said = []
    if len(answers.wrong):
        said.append(
            f"{counted(len(answers.wrong), 'fact is', 'facts are')} known to be wrong, by a label "
            "or an answer. No system was trained on such facts; quarantine.tsv holds them."
        )
    if len(answers.right):
        said.append(
            f"{counted(len(answers.right), 'fact is', 'facts are')} known to be right, by a label "
            "or an answer. Such facts are never suspected."
        )
    return said


def _left_out(answers: Answers) -> list[str]:
    said = []
    unsure, both = int((answers.said == UNSURE).sum()), len(answers.both)
    if both:
        said.append(
            f"{counted(both, 'fact is', 'facts are')} called right in one place and wrong in "
            "another. Such facts are judged as if nobody had said anything."
        )
    if unsure > both:
        said.append(
            f"On {counted(unsure - both, 'fact')} the answers are unsure; these change nothing."
        )
    if answers.absent:
        said.append(
            f"{counted(answers.absent, 'answer is', 'answers are')} about what is not stored, the "
            f"first about {answers.first_absent}. Facts called wrong are not proposed as missing; "
            "beyond that these answers change nothing."
        )
    if answers.open:
        said.append(f"There is no answer yet in {counted(answers.open, 'row')} of the answers.")
    return said


def _taught(answers: Answers, learned: Learned) -> list[str]:
    sure = int((answers.said != UNSURE).sum())
    if not sure:
        return []
    if not learned.used:
        return [
            f"{counted(sure, 'answer is', 'answers are')} too few to change probabilities; "
            f"{LEAST_ANSWERS} are needed."
        ]
    said = [f"The probabilities were recalibrated by {learned.used:,} answers."]
    if learned.kept:
        said = [
            f"{learned.used:,} answers agree with the probabilities, which stay as they are. "
            f"{learned.lacking}"
        ]
    if learned.share is not None:
        said.append(
            f"The share of wrong facts and its interval rest on {learned.random:,} answers on "
            "facts that were drawn at random, and on nothing else."
        )
    elif (answers.drawn != RANDOM).all():
        said.append(
            "None of the answers is on a fact drawn at random, so they do not say how many facts "
            "are wrong."
        )
    return said
