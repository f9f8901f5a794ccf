"""How far a review is, in figures and in sentences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npugraph.names import percent
from npugraph.review.estimate import Draw
from npugraph.review.learning import Judged
from npugraph.review.material import Material
from npugraph.review.records import DeskSettings, Progress, Share
from npugraph.review.serving import Serving
from npugraph.review.showing import in_order
from npugraph.review.tally import DISPUTE, OPEN, RIGHT, STATES, UNSURE, WRONG, Tally


def share_now(draw: Draw, tally: Tally, material: Material) -> Share | None:
    """Return the share of wrong facts by those that the random order has come to."""
    rows = draw.come_to(tally.drawn_facts())
    settled = tally.settled()
    every = tally.said(settled[material.stored[settled]])
    return draw.share(rows, tally.said(rows), (int((every == 0).sum()), int((every == 1).sum())))


def progress_now(
    tally: Tally,
    judged: Judged,
    serving: Serving,
    share: Share | None,
    settings: DeskSettings,
    budget: int,
    reviewer: str,
) -> Progress:
    """Return how far the review is, for one reviewer."""
    states = np.bincount(tally.state, minlength=len(STATES))
    answered, every = len(tally.by_fact), settings.learn_every
    progress = Progress(
        answered=answered,
        mine=len(tally.by_reviewer.get(reviewer, ())),
        right=int(states[RIGHT]),
        wrong=int(states[WRONG]),
        unsure=int(states[UNSURE]),
        disputes=int(states[DISPUTE]),
        budget=budget,
        remaining=max(budget - answered, 0),
        random=len(tally.drawn),
        share=share,
        learned=judged.used,
        until_learning=every - tally.sure % every,
        expected=_expected(judged, tally, every),
        estimate=settings.estimate,
        enough=settings.estimate is not None and serving.enough(),
    )
    return replace(progress, said=_sentences(progress))


def _expected(judged: Judged, tally: Tally, count: int) -> float | None:
    """Return how many of the next facts should be wrong or missing, where that may be said."""
    rows = in_order(judged, tally.state == OPEN, "yield")[:count]
    allowed = np.where(judged.material.stored[rows], *judged.allowed)
    return float(judged.gain[rows].sum()) if len(rows) and allowed.all() else None


def _sentences(progress: Progress) -> tuple[str, ...]:
    """Put progress into sentences."""
    said = []
    share = progress.share
    if share is None:
        said.append("No fact was drawn at random yet, so the share of wrong facts is not known.")
    else:
        said.append(
            f"{percent(share.value)} of the stored facts are wrong ({percent(share.low)} to "
            f"{percent(share.high)}), by {_facts(share.answers)} drawn at random."
        )
    if share is not None and share.open:
        said.append(
            f"On {_facts(share.open)} that came before them nobody is sure; the share takes them "
            "to be wrong as often as the others."
        )
    if progress.enough and share is not None:
        said.append(f"That is as narrow as was asked for; it took {share.answers:,} answers.")
    if progress.learned:
        said.append(f"The probabilities and the order rest on {progress.learned:,} answers.")
    if progress.disputes:
        waits = "is in dispute and waits" if progress.disputes == 1 else "are in dispute and wait"
        said.append(f"{_facts(progress.disputes)} {waits} for one more reviewer.")
    return tuple(said)


def _facts(count: int) -> str:
    return "1 fact" if count == 1 else f"{count:,} facts"
