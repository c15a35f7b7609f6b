"""How far a request agrees with transformers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

TOKENS, LEAST = 32, 30


@dataclass(frozen=True)
class Agreement:
    """How far a request agrees with logits in float32: tokens, and errors relative to the largest logit."""

    tokens: int
    behind: float  # of tokens that have not the largest logit
    error: float  # of the logarithms of probabilities

    def accepts(self, bound: float) -> bool:
        """Whether tokens agree, other tokens are ties within the bound, and so are probabilities."""
        return self.tokens >= LEAST and self.behind < bound and self.error < bound


def agreement(request: Mapping[str, Any], logits: Tensor, allowed: Collection[int] = ()) -> Agreement:
    """Compare a request with the logits of its own tokens; where a grammar allows some, with theirs."""
    tokens = torch.tensor(request["tokens"])
    largest = logits.abs().max()
    candidates = logits
    if allowed:
        candidates = torch.full_like(logits, -torch.inf)
        candidates[:, list(allowed)] = logits[:, list(allowed)]
    best = candidates.max(-1).values
    chosen = candidates.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    expected = candidates.log_softmax(-1)
    errors = [
        abs(logprob - expected[index, int(token)].item())
        for index, step in enumerate(request["logprobs"])
        for token, logprob in step.items()
    ]
    return Agreement(
        int((best == chosen).sum()), ((best - chosen).max() / largest).item(), max(errors) / largest.item()
    )


def difference(logits: Tensor, exact: Tensor) -> float:
    """Return the largest error of the logarithms of probabilities, relative to the largest logit."""
    error = (logits.float().log_softmax(-1) - exact.log_softmax(-1)).abs().max()
    return (error / exact.abs().max()).item()
