"""What models of paths have in common: they judge a stored fact without itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from npugraph.graph import SIDES, Side, TripleIndex
from npugraph.model import Model
from npugraph.recipes.path.judged import Judged
from npugraph.recipes.path.posterior import PathPosterior, posterior_of


class JudgingModel(Model):
    """A model that scores facts as :meth:`judge` does, and says how likely stored ones are true."""

    stored: TripleIndex
    hides_stored = True
    reciprocal = True
    _posterior: tuple[tuple[int, ...], PathPosterior | None] | None = None

    @abstractmethod
    def regroup(self, order: Tensor) -> None:
        """Hide neighbours in ``order`` [n], the numbers of all stored facts, together."""

    @abstractmethod
    def judge(
        self, facts: Tensor, sides: Sequence[Side] = SIDES, beside: Tensor | None = None
    ) -> Judged:
        """Score facts [n, 3], own edges hidden where stored, as answers for each of ``sides``.

        With ``beside`` [n], numbers of stored facts, a fact is asked of the graph that the stored
        fact of that number is asked of: without its group.
        """

    @abstractmethod
    def judge_thoroughly(self, facts: Tensor, beside: Tensor | None = None) -> Judged:
        """Judge both sides as :meth:`judge` does, and on thinned graphs if there are any."""

    @torch.no_grad()
    def log_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Return the logarithm of a softmax over all entities for queries [q]: [q, E]."""
        return self.score_all(known, relation, side).log_softmax(1)

    @torch.no_grad()
    def score(self, facts: Tensor) -> Tensor:
        """Score facts [n, 3], own edges hidden where stored: [n], the mean of both directions."""
        return self.judge(facts).raw.mean(0)

    @torch.no_grad()
    def score_as(self, facts: Tensor, side: Side) -> Tensor:
        """Score facts [n, 3] as answers to the question for their ``side``: [n].

        Facts that are not stored get the entry of ``score_all``. Stored ones get what it would be
        without the edges of their group.
        """
        return self.judge(facts, (side,)).raw[0]

    def posterior(self) -> PathPosterior | None:
        """Return how likely stored facts are true; fitted anew when weights have changed.

        It follows from the weights and the stored facts alone. None: there are too few facts.
        """
        weights = tuple(parameter._version for parameter in self.parameters())
        if self._posterior is None or self._posterior[0] != weights:
            self._posterior = weights, posterior_of(self, thorough=True)
        return self._posterior[1]

    @torch.no_grad()
    def probability(self, facts: Tensor, collected: Tensor) -> Tensor:
        """Return the probability that facts [n, 3] are true, own edges hidden: [n].

        It is there for collected facts, and not a number for others: these are not like the
        corruptions that the posterior is fitted to, but mostly somebody's best guesses. With too
        few stored facts it is there for none.
        """
        found = torch.full((len(facts),), torch.nan, dtype=torch.float64, device=facts.device)
        posterior = self.posterior() if collected.any() else None
        if posterior is None:
            return found
        known = torch.tensor(posterior.if_stored(self.judge_thoroughly(facts[collected])))
        found[collected] = known.to(found)
        return found
