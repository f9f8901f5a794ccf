"""What a layer of the path model learns and computes, and the perceptron after the last one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear


def even(shape: tuple[int, ...], inputs: int, rng: torch.Generator) -> nn.Parameter:
    """Draw weights evenly from +-1 / sqrt(inputs)."""
    return nn.Parameter((torch.rand(shape, generator=rng) * 2 - 1) / inputs**0.5)


class PathLayer(nn.Module):
    """One step along the edges: what the messages are multiplied by, and what is made of them.

    Attributes:
        edge_weight, edge_bias: map a query's vector to the vectors of the 2R edge relations.
        feature_weight: [3d, 4d], mean, max, min and std to one sum per degree scale.
        state_weight, state_bias: [d, d] and [d], the state's own part.
        norm_weight, norm_bias: [d] each, of the layer norm.
    """

    def __init__(self, d: int, num_relations: int, rng: torch.Generator) -> None:
        """Draw the weights of a layer; ``num_relations`` is 2R, both directions."""
        super().__init__()
        self.edge_weight = nn.Parameter(torch.randn(num_relations * d, d, generator=rng) / d**0.5)
        self.edge_bias = even((num_relations * d,), d, rng)
        self.feature_weight = even((3 * d, 4 * d), 4 * d, rng)
        self.state_weight = even((d, d), d, rng)
        self.state_bias = even((d,), d, rng)
        self.norm_weight = nn.Parameter(torch.ones(d))
        self.norm_bias = nn.Parameter(torch.zeros(d))

    def edge_vectors(self, query: Tensor) -> Tensor:
        """Return the vectors of the edge relations for query vectors [B, d]: [2R, B, d]."""
        made = linear(query, self.edge_weight, self.edge_bias)
        shape = (len(query), len(self.edge_bias) // query.shape[1], query.shape[1])
        return made.view(shape).transpose(0, 1).contiguous()

    def dense(self, kind: torch.dtype) -> tuple[Tensor, ...]:
        """Return the weights of the dense part; products are taken in ``kind``, the norm is not."""
        low = (self.feature_weight, self.state_weight, self.state_bias)
        return (*(weight.to(kind) for weight in low), self.norm_weight, self.norm_bias)


def next_states(
    features: Tensor,
    states: Tensor,
    scale: Tensor,
    feature_weight: Tensor,
    state_weight: Tensor,
    state_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
) -> Tensor:
    """Return the states [N, B, d] after a layer: ``x + relu(norm(sum_k s_k W_k f + V x + b))``.

    The features f [N, B, 4, d] are multiplied by the three blocks W_k before the degree scales
    s_k [N, 3]: a third of the work of a product with all twelve scaled features. On a CPU, where
    there are more questions than numbers per state, every node has its own sum of scaled blocks:
    a third of the work again.
    """
    d = states.shape[-1]
    own = linear(states, state_weight, state_bias)
    if not states.is_cuda and d < states.shape[1]:
        blocks = (scale.to(own.dtype) @ feature_weight.view(3, -1)).view(-1, d, 4 * d)
        made = torch.baddbmm(own, features.flatten(2), blocks.transpose(1, 2))
    else:
        sums = linear(features.flatten(2), feature_weight).view(*states.shape[:2], 3, d)
        made = (sums * scale.to(sums.dtype)[:, None, :, None]).sum(2) + own
    normed = layer_norm(made.to(norm_weight.dtype), (d,), norm_weight, norm_bias)
    return states + torch.relu(normed).to(states.dtype)


def perceptron(
    states: Tensor,
    vectors: Tensor,
    state_part: Tensor,
    query_part: Tensor,
    hidden_bias: Tensor,
    answer: Tensor,
    question: Tensor | None = None,
) -> Tensor:
    """Score the states [E, B, d] of questions with vectors [B, d]: [B, E].

    The first layer is split, ``state_part @ x + query_part @ q``, so that the query's part is
    computed once. With ``question`` [C] the states [1, C, d] are of these questions: [C, 1].
    """
    kind = states.dtype
    asked = linear(vectors, query_part, hidden_bias).to(kind)
    if question is not None:
        asked = asked[question]
    hidden = torch.relu(linear(states, state_part.to(kind)) + asked)
    # In full precision, or answers tie; without a bias, which the softmax would not feel.
    return linear(hidden.to(vectors.dtype), answer).squeeze(-1).t()


def degree_scales(degree: Tensor) -> Tensor:
    """Return the three scales of each entity's features, [N, 3]: 1, log-degree / mean, inverse."""
    log = torch.log(degree + 1)
    relative = log / log.mean()
    return torch.stack([torch.ones_like(relative), relative, 1 / relative.clamp_min(1e-2)], 1)
