"""What an explanation holds, in labels, ready for JSON or the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from npugraph.display import Shown
from npugraph.graph import Side
from npugraph.names import percent, shorten

Labels = tuple[str, str, str]
ContradictionKind = Literal["functional", "type", "asymmetric", "loop", "unconfirmed"]


@dataclass(frozen=True)
class Supporting:
    """A rule that fires for the fact.

    Attributes:
        rule: the rule in words.
        kind: symmetric, inverse, subsumption or composition.
        confidence: share of the rule's other instances that are stored.
        lower: lower 95% bound of that share.
        support: other instances that are stored.
        body_count: other instances.
        sampled: whether the two counts are of a sample.
        ways: the stored facts that make the body true here, one entry per way.
    """

    rule: str
    kind: str
    confidence: float
    lower: float
    support: int
    body_count: int
    sampled: bool
    ways: tuple[tuple[Labels, ...], ...]


@dataclass(frozen=True)
class Contradicting:
    """A regularity of the stored facts that the fact breaks.

    Attributes:
        kind: which regularity.
        strength: lower 95% bound of the share of other cases that keep to it; for ``type``, the
            share of the entity's roles that are foreign to the relation.
        text: one sentence.
        facts: the stored facts that speak against it, where there are any.
    """

    kind: ContradictionKind
    strength: float
    text: str
    facts: tuple[Labels, ...]


@dataclass(frozen=True)
class Usage:
    """How usual an entity is on one side of the relation, the fact itself not counted.

    Attributes:
        side: the side the entity is on.
        entity: its name.
        count: other facts of the relation with the entity on this side.
        relation_count: other facts of the relation.
        share: count / relation_count, 0 where the relation has no other facts.
        percentile: share of the entities seen on this side that are seen there less often.
        degree: other facts the entity is in, on any side of any relation.
    """

    side: Side
    entity: str
    count: int
    relation_count: int
    share: float
    percentile: float
    degree: int


@dataclass(frozen=True)
class Similar:
    """An entity much like the head or tail, and what stands in its place on the other side.

    Attributes:
        side: the side of the fact that ``entity`` is like.
        entity: the similar entity.
        similarity: weighted share of the features (relation, neighbour) it has in common, 0 to 1.
        values: what the relation stores for it on the other side.
        agrees: whether that includes the value of this fact.
    """

    side: Side
    entity: str
    similarity: float
    values: tuple[str, ...]
    agrees: bool


@dataclass(frozen=True)
class Alternative:
    """Another entity in the place of the head or tail.

    Attributes:
        side: the side that is replaced.
        fact: the fact it makes.
        score: its score.
        gain: by how much that is above the score of the fact in question.
        collected: whether it is stored.
    """

    side: Side
    fact: Labels
    score: float
    gain: float
    collected: bool


@dataclass(frozen=True)
class EvidencePath:
    """A way along stored facts from head to tail that the model judges by.

    Attributes:
        facts: the facts in order.
        forward: for each, whether it is passed from its head to its tail.
        weight: by how much the score would fall without one of them, to first order, on average.
    """

    facts: tuple[Labels, ...]
    forward: tuple[bool, ...]
    weight: float

    def words(self) -> str:
        """Return the path in one line.

        >>> way = (("Ann", "mother_of", "Bo"), ("Cy", "lives_with", "Bo"))
        >>> EvidencePath(way, (True, False), 0.5).words()
        'Ann -mother_of-> Bo <-lives_with- Cy'
        """
        text = ""
        for (head, relation, tail), forward in zip(self.facts, self.forward, strict=True):
            first, last = (head, tail) if forward else (tail, head)
            arrow = f"-{shorten(relation)}->" if forward else f"<-{shorten(relation)}-"
            text = f"{text or shorten(first)} {arrow} {shorten(last)}"
        return text


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """The evidence about one fact.

    Attributes:
        fact: head, relation and tail.
        ids: the same as ids.
        stored: whether the graph holds it.
        supporting: rules that fire, best first.
        contradicting: regularities it breaks, strongest first.
        usage: how usual head and tail are.
        similar: entities like the head and like the tail.
        scores: score of the fact by the side that was asked for; empty without a model.
        ranks: its filtered realistic rank by side; empty without a model.
        alternatives: the best scored other entities, by side.
        corrections: what may be meant instead: for each side the best stored and the best new
            alternative that score above the fact, highest gain first.
        paths: what a model that judges by paths rests on, heaviest first.
        probability: that the fact is true, where it was judged, else None.
        low: lower end of its 90% interval, where there is one.
        high: upper end.
    """

    fact: Labels
    ids: tuple[int, int, int]
    stored: bool
    supporting: tuple[Supporting, ...]
    contradicting: tuple[Contradicting, ...]
    usage: tuple[Usage, ...]
    similar: tuple[Similar, ...]
    scores: dict[str, float]
    ranks: dict[str, float]
    alternatives: tuple[Alternative, ...]
    corrections: tuple[Alternative, ...]
    paths: tuple[EvidencePath, ...]
    probability: float | None = None
    low: float | None = None
    high: float | None = None

    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Show the state of the fact and how much speaks for it and against it."""
        rows: dict[str, object] = {"stored": self.stored}
        if self.probability is not None:
            rows["probability"] = self.probability
        rows |= {"for it": len(self.supporting), "against it": len(self.contradicting)}
        return f"Explanation of {_words(self.fact)}", rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dataclasses.asdict(self)

    def to_text(self) -> str:
        """Return lines for the terminal."""
        state = "stored" if self.stored else "not stored"
        lines = [f"{_words(self.fact)}  [{state}]", *self._probability_lines()]
        sections = [
            ("For it", self._supporting_lines() or ["  no rule fires"]),
            ("Against it", self._contradicting_lines() or ["  nothing found"]),
            ("How usual", self._usage_lines()),
            ("Similar entities", self._similar_lines()),
            ("Ranked", self._ranked_lines()),
            ("Perhaps meant", [_alternative_line(a) for a in self.corrections]),
            ("Paths the score rests on", [f"  {p.weight:.3f}  {p.words()}" for p in self.paths]),
        ]
        for title, content in sections:
            if content:
                lines += [title, *content]
        return "\n".join(lines)

    def _probability_lines(self) -> list[str]:
        if self.probability is None:
            return []
        line = f"Probability of being true: {percent(self.probability)}"
        if self.low is not None and self.high is not None:
            line += f" (90% interval {percent(self.low)} to {percent(self.high)})"
        return [line]

    def _supporting_lines(self) -> list[str]:
        lines = []
        for item in self.supporting:
            counts = f"{item.support:,} of {item.body_count:,}{' sampled' if item.sampled else ''}"
            lines.append(f"  {item.confidence:.3f}  {item.rule}  ({counts})")
            lines += [f"         {' and '.join(map(_words, way))}" for way in item.ways]
        return lines

    def _contradicting_lines(self) -> list[str]:
        lines = []
        for item in self.contradicting:
            lines.append(f"  {item.strength:.3f}  {item.text}")
            lines += [f"         {_words(fact)}" for fact in item.facts]
        return lines

    def _usage_lines(self) -> list[str]:
        return [
            f"  {u.side} {shorten(u.entity)}: in {u.count:,} of {u.relation_count:,} other facts "
            f"of {shorten(self.fact[1])} ({u.share:.1%}), more than {u.percentile:.0%} of its "
            f"{u.side}s; in {u.degree:,} other facts"
            for u in self.usage
        ]

    def _similar_lines(self) -> list[str]:
        return [
            f"  {s.similarity:.3f}  like the {s.side}, {shorten(s.entity)}: "
            f"{', '.join(map(shorten, s.values)) or 'nothing stored'}"
            f"{'  (agrees)' if s.agrees else ''}"
            for s in self.similar
        ]

    def _ranked_lines(self) -> list[str]:
        lines = []
        for side, rank in self.ranks.items():
            lines.append(f"  as {side}: rank {rank:,.10g}, score {self.scores[side]:.4f}; above it")
            listed = [a for a in self.alternatives if a.side == side and a.gain > 0]
            lines += [f"  {_alternative_line(a)}" for a in listed]
            if not listed:
                lines[-1] = lines[-1].removesuffix("; above it")
        return lines


def _words(fact: Labels) -> str:
    return f"({', '.join(map(shorten, fact))})"


def _alternative_line(item: Alternative) -> str:
    state = "stored" if item.collected else "not stored"
    return f"  {item.score:.4f}  {_words(item.fact)}  [{state}]"
