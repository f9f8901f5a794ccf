"""ConvE: a convolution over head and relation, laid out as an image."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from npugraph.errors import SettingsError
from npugraph.graph import Side
from npugraph.scorers.base import Scorer
from npugraph.scorers.grouped import by_relation

# Queries whose feature maps are held at a time in evaluation.
CPU_TILE, GPU_TILE = 128, 4096


class ConvE(Scorer):
    """``g(h, r) . t + b_t`` with a convolutional network g (Dettmers et al. 2018).

        g(h, r) = relu(BN(drop( W vec(drop(relu(BN(conv(drop(BN([h ; r])))))) + c )))

    h and r are laid out as an image of 2 * ``height`` rows, h above r; with ``interleave`` their
    coordinates alternate, as in CompGCN. The bias b_t of an entity is the last of its d + 1
    numbers; h does without.

    A question for a tail costs one run of the network and one product. A question for a head runs
    it once for each entity and relation: give relations reciprocal twins instead where heads are
    asked for. In training, statistics are those of the batch, and of all entities for heads.
    """

    def __init__(
        self,
        dimension: int,
        height: int,
        *,
        filters: int = 32,
        kernel: int = 3,
        input_dropout: float = 0.0,
        feature_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        interleave: bool = False,
        rng: torch.Generator | None = None,
    ) -> None:
        """Choose the layout of ``dimension`` numbers, the convolution, and the dropouts."""
        super().__init__()
        if height < 1 or dimension % height:
            raise SettingsError(f"height={height} must divide the dimension, {dimension}.")
        rows, columns = 2 * height - kernel + 1, dimension // height - kernel + 1
        if kernel < 1 or rows < 1 or columns < 1:
            raise SettingsError(
                f"kernel={kernel} does not fit an image of {2 * height} x {dimension // height}; "
                "choose a smaller kernel or another height."
            )
        self.dimension = dimension
        self.height = height
        self.interleave = interleave

        def even(*shape: int, inputs: int) -> nn.Parameter:
            return nn.Parameter((torch.rand(shape, generator=rng) * 2 - 1) * inputs**-0.5)

        features = filters * rows * columns
        self.filters = even(filters, 1, kernel, kernel, inputs=kernel * kernel)
        self.weight = even(dimension, features, inputs=features)
        self.shift = even(dimension, inputs=features)
        self.input_norm = nn.BatchNorm2d(1)
        self.feature_norm = nn.BatchNorm2d(filters)
        self.hidden_norm = nn.BatchNorm1d(dimension)
        self.input_dropout = nn.Dropout(input_dropout)
        self.feature_dropout = nn.Dropout(feature_dropout)
        self.hidden_dropout = nn.Dropout(hidden_dropout)

    def entity_width(self, dimension: int) -> int:
        """A bias beside the vector."""
        return dimension + 1

    def step_bytes(self, queries: int) -> int:
        """The feature maps, about six times: after each operation, and their gradients."""
        return 6 * 4 * queries * self.weight.shape[1]

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        pairs = torch.broadcast_tensors(head[..., :-1], relation)  # type: ignore[no-untyped-call]
        hidden = self._hidden(*(part.reshape(-1, self.dimension) for part in pairs))
        hidden = hidden.view(pairs[0].shape)
        return (hidden * tail[..., :-1]).sum(-1) + tail[..., -1]

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity; a head is the costly side, see the class."""
        if side == "tail":
            hidden = self._hidden(known[..., :-1].flatten(0, -2), relation.flatten(0, -2))
            hidden = hidden.view(*known.shape[:-1], self.dimension)
            return hidden @ entities[..., :-1].mT + entities[..., -1].unsqueeze(-2)
        if known.dim() > 2:
            every = entities.unsqueeze(-3), relation.unsqueeze(-2), known.unsqueeze(-2)
            return self.score(*every)
        if len(known) == 0:
            return known @ entities.mT

        def score_group(rows: Tensor) -> Tensor:
            heads = self._hidden(entities[:, :-1], relation[rows[0]].expand(len(entities), -1))
            tails = known.index_select(0, rows)
            return tails[:, :-1] @ heads.T + tails[:, -1:]

        return by_relation(relation, score_group)

    def _hidden(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return g(h, r) of many pairs, tile by tile in evaluation: [n, d] each to [n, d].

        In training there is one tile: batch normalisation takes its statistics over all.
        """
        tile = CPU_TILE if head.device.type == "cpu" else GPU_TILE
        if self.training or len(head) <= tile:
            return self._network(head, relation)
        parts = zip(torch.split(head, tile), torch.split(relation, tile), strict=True)
        return torch.cat([self._network(*part) for part in parts])

    def _network(self, head: Tensor, relation: Tensor) -> Tensor:
        image = torch.stack([head, relation], 2 if self.interleave else 1)
        image = image.reshape(len(head), 1, 2 * self.height, self.dimension // self.height)
        image = self.input_dropout(self._normed(image, self.input_norm))
        maps = self._normed(functional.conv2d(image, self.filters), self.feature_norm)
        maps = self.feature_dropout(torch.relu(maps))
        hidden = functional.linear(maps.flatten(1), self.weight, self.shift)
        return torch.relu(self._normed(self.hidden_dropout(hidden), self.hidden_norm))

    def _normed(self, values: Tensor, norm: nn.BatchNorm1d | nn.BatchNorm2d) -> Tensor:
        """Normalise by the batch in training, but a batch of one has no spread to go by."""
        return functional.batch_norm(
            values,
            norm.running_mean,
            norm.running_var,
            norm.weight,
            norm.bias,
            training=self.training and len(values) > 1,
            momentum=norm.momentum or 0.0,
            eps=norm.eps,
        )
