"""What was tuned: every number of the audit that was chosen by looking at results.

They are written into ``audit.json`` with each audit. The seeds and graphs on which they were
chosen are told in docs/audit_figures.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from npugraph.calibration.thresholds import PriorThresholds, check_below_one, check_rising
from npugraph.settings import setting


@dataclass(frozen=True)
class Thresholds(PriorThresholds):
    """The numbers that were tuned; their defaults are what all published figures rest on.

    Those of the priors come first; they serve whoever calibrates scores, without an audit, too.
    """

    # Which facts are looked at.
    least_facts: int = setting(50, "fewer distinct facts are not audited", low=2)
    rare_facts: int = setting(20, "a relation of fewer facts gets no share of its own", low=1)
    pool_facts: int = setting(200_000, "uncollected facts per kind at most", low=1)
    most_planted: int = setting(2000, "facts of each kind that are planted at most", low=1)
    valid_share: float = setting(
        0.02, "share of a fold's training facts that chooses its best epoch", low=0, high=1
    )
    # Choosing among training settings.
    search_facts: int = setting(50_000, "up to so many facts, a few settings are tried", low=0)
    search_valid_share: float = setting(
        0.05, "share of the training facts that chooses among them", low=0, high=1
    )
    # Candidates for missing facts.
    most_missing: int = setting(1000, "missing facts listed where no number is asked for", low=1)
    least_missing: float = setting(
        0.5, "probability that such a fact must have at least", low=0, high=1
    )
    role_entities: int = setting(4096, "most entities of a role that are looked at", low=1)
    candidates_per_missing: int = setting(20, "candidates judged per missing fact asked for", low=1)
    least_candidates: int = setting(1000, "candidates judged per fold at least", low=1)
    # The noise profile.
    profile_facts: int = setting(30_000, "facts of each sort that the noise profile is from", low=1)
    profile_rounds: int = setting(40, "trees per classifier of the noise profile", low=1)
    profile_leaves: int = setting(15, "leaves per tree of the noise profile", low=2)
    profile_ends: tuple[float, ...] = setting(
        (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5),
        "quantiles of a pool below which facts are counted",
    )
    profile_ridge: float = setting(
        1e-3, "pull of the shares to 0, and so to one another where kinds look alike", low=0
    )
    one_ended: float = setting(
        4.0, "pools are cut by end where so many times more wrong facts are at one end", low=0
    )
    found_more: float = setting(
        1.5, "or where more are, and cut pools find so many times more wrong facts", low=0
    )
    least_at_end: float = setting(
        0.005, "fewer wrong facts than this share of all say nothing about ends", low=0, high=1
    )
    least_of_end: float = setting(
        0.1, "a pool with a smaller share of facts of an end is not cut", low=0, high=1
    )
    # One score.
    score_facts: int = setting(80_000, "facts of each sort that the score learns from", low=1)
    score_rounds: int = setting(80, "trees per classifier of the score", low=1)
    draft_rounds: int = setting(40, "trees of the one that says what to doubt", low=1)
    score_doubted: float = setting(
        0.02, "the score learns from a stored fact by its probability, so much at least", low=0
    )
    score_leaves: int = setting(15, "leaves per tree of the score", low=2)
    score_least_leaf: int = setting(50, "facts per leaf of the score at least", low=1)
    score_looked_at: float = setting(
        0.4, "share of the features among which a split of the score is chosen", low=0.01, high=1
    )
    score_missed: float = setting(
        0.003,
        "share of every kind that the noise profile may have missed where it sees nothing",
        low=1e-6,
        high=1,
    )
    score_shown: float = setting(
        0.01, "share of wrong facts in the profile from which on none was missed so", low=1e-6
    )
    score_hidden: float = setting(
        0.3,
        "share of a kind that may hide, beside the density of stored facts in half of its pool",
        low=0,
    )
    score_floor: float = setting(0.01, "least weight of a kind of uncollected facts", low=0, high=1)
    score_sample: float = setting(
        0.05, "a kind of less weight gives as many facts as if it had this one", low=0, high=1
    )
    small_kind: float = setting(
        0.02, "a kind of less weight may fall short where facts are chosen", low=0, high=1
    )
    # The low end of the score, and what is promised of it.
    low_part: float = setting(0.3, "part of a pool that is its low end", low=0.01, high=0.5)
    overlap: float = setting(
        0.25,
        "share of the true facts in the middle of a pool, by density, that may be at its low end",
        low=0,
        high=1,
    )
    little_known: int = setting(5, "of an entity in fewer other facts little is known", low=0)
    well_supported: tuple[float, ...] = setting(
        (0.5, 0.25, 0.1), "shares of a pool, those of most support, that are looked at alone"
    )
    well_known: int = setting(20, "an entity in so many other facts is well known anyhow", low=1)
    least_supported: int = setting(30, "facts of a pool that such a look needs at least", low=1)
    least_planted: int = setting(20, "fewer planted facts are no self-test", low=1)
    corrected_facts: int = setting(
        2000, "stored facts of which an end is replaced, to learn corrections", low=0
    )
    least_corrected: float = setting(
        0.5,
        "chance of being right that a correction must have, by itself and in the self-test",
        low=0,
        high=1,
    )
    by_chance: float = setting(
        0.7, "AUROC of planted facts up to which nothing can be judged", low=0.5, high=1
    )
    told_apart: float = setting(
        0.85, "AUROC of planted facts up to which no count is promised", low=0.5, high=1
    )
    firm: float = setting(
        0.65, "a count is promised where its low end is at least this share of it", low=0
    )
    told_share: float = setting(
        0.5, "the share of wrong facts is told where its interval ends here at most", low=0, high=1
    )
    alike: float = setting(
        0.5, "at least this share of the planted facts expected at the low end must be there", low=0
    )
    # Entities whose facts stand out.
    cluster_facts: int = setting(
        10, "an entity of fewer facts does not stand out, nor among fewer such entities", low=2
    )
    cluster_beyond: float = setting(
        3.0, "standard deviations by which the mean suspicion of its facts must be larger", low=0
    )
    cluster_excess: float = setting(
        0.2, "and by how much, where that of all facts goes from 0 to 1", low=0, high=1
    )
    cluster_share: float = setting(
        0.035, "share of all facts that those standing out must have together", low=0, high=1
    )
    envelope_ends: tuple[float, ...] = setting(
        (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75),
        "quantiles of the scores below which wrong facts of all kinds must find room",
    )
    least_called: float = setting(
        0.1,
        "a family of which a smaller share is called wrong when it is left out is named",
        low=0,
        high=1,
    )
    least_clean: int = setting(20, "fewer facts that are believed to be right test nothing", low=1)
    judged_relation: int = setting(
        100, "a relation of fewer facts gets no verdict of its own", low=1
    )
    # An audit that goes on from an earlier one.
    since_facts: int = setting(
        100, "fewer facts that are added or changed get no count of wrong ones", low=1
    )
    since_share: float = setting(
        0.3, "a full audit is due where more of the facts are newer than the last", low=0, high=1
    )
    since_chain: int = setting(10, "or after so many audits that go on from another", low=1)
    since_mrr: float = setting(
        0.8, "or where the validation MRR is less than this part of what it was", low=0
    )
    since_auroc: float = setting(
        0.05, "or where the self-test's AUROC has fallen by more than this", low=0, high=1
    )
    # Missing facts.
    least_found: int = setting(
        100, "fewer held-out facts that are found again say nothing of the missing ones", low=1
    )
    least_best: int = setting(100, "best candidates that are taken to be true, at least", low=1)
    best_share: float = setting(
        0.2, "or so many of them per fact found again, where that is more", low=0
    )
    found_mismatch: float = setting(
        0.2,
        "how far, in relative terms, missing facts may differ from held-out ones",
        low=0,
    )
    found_rounds: int = setting(40, "trees per classifier of candidates", low=1)
    found_leaves: int = setting(7, "leaves per tree of these", low=2)
    found_least_leaf: int = setting(100, "candidates per leaf of these at least", low=1)

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        super().__post_init__()
        check_rising(self, "profile_ends")
        check_rising(self, "envelope_ends")
        check_below_one(self, "found_mismatch")


# What all published figures rest on.
TUNED = Thresholds()
