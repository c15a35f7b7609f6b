"""Calls of chunk_gated_delta_rule_fwd_h and chunk_fwd_o: the whole must be the recurrent rule, token by token."""

from typing import Any

import numpy as np
import torch

from support.extension_calls import Case, Wrong
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32

H, OUT = "_C_ascend::chunk_gated_delta_rule_fwd_h", "_C_ascend::chunk_fwd_o"
CHUNK = 64


def recurrence(
    q: Any, k: Any, v: Any, beta: Any, gates: Any, state: Any, spans: list[tuple[int, int]], scale: float
) -> dict[str, Any]:
    """The rule of one batch, token by token in float64; with w and u of the chunks' triangular systems."""
    heads, share = v.shape[0], v.shape[0] // k.shape[0]
    out, w, u, new = (np.zeros((heads, v.shape[1], size)) for size in (v.shape[2], k.shape[2], v.shape[2], v.shape[2]))
    sums, states, last = np.zeros((heads, v.shape[1])), [], []
    for sequence, (start, end) in enumerate(spans):
        s = state[sequence].copy()
        for first in range(start, end, CHUNK):
            tokens = slice(first, min(first + CHUNK, end))
            states.append(s.copy())
            sums[:, tokens] = np.cumsum(gates[:, tokens], 1)
            for head in range(heads):
                key, g, b = k[head // share, tokens], sums[head, tokens], beta[head, tokens, None]
                inner = np.tril(b * (key @ key.T) * np.exp(g[:, None] - g[None]), -1)
                inverse = np.linalg.inv(np.eye(len(g)) + inner)
                w[head, tokens] = inverse @ (b * key * np.exp(g)[:, None])
                u[head, tokens] = inverse @ (b * v[head, tokens])
                for i, token in enumerate(range(tokens.start, tokens.stop)):
                    s[head] *= np.exp(gates[head, token])
                    error = v[head, token] - key[i] @ s[head]
                    new[head, token] = beta[head, token] * error
                    s[head] += np.outer(key[i], new[head, token])
                    out[head, token] = scale * (q[head // share, token] @ s[head])
        last.append(s.copy())
    return {"out": out, "w": w, "u": u, "new": new, "sums": sums, "states": np.stack(states, 1), "last": np.stack(last)}


def unit(make: Any, *shape: int) -> torch.Tensor:
    return torch.nn.functional.normalize(f32(*shape), dim=-1).to(make(1).dtype)


def cases(label: str, make: Any, lengths: tuple[int, ...], batches: int, state: torch.dtype | None) -> list[Case]:
    """A call of each operator, from the same rule; its inputs and results are rounded several times."""
    tokens, scale, exact = sum(lengths), 0.25, np.float64
    spans = [(sum(lengths[:i]), sum(lengths[: i + 1])) for i in range(len(lengths))]
    q, k = unit(make, batches, 2, tokens, 16), unit(make, batches, 2, tokens, 16)
    v, beta, gates = (
        make(batches, 4, tokens, 8),
        f32(batches, 4, tokens).sigmoid(),
        -f32(batches, 4, tokens).sigmoid() / 8,
    )
    sequences = batches * len(lengths)
    first = None if state is None else f32(sequences, 4, 16, 8).to(state)
    begun = np.zeros((sequences, 4, 16, 8)) if first is None else floats(first).astype(exact)
    rules = [
        recurrence(
            *(floats(tensor)[b].astype(exact) for tensor in (q, k, v, beta, gates)),
            begun[b * len(lengths) : (b + 1) * len(lengths)],
            spans,
            scale,
        )
        for b in range(batches)
    ]

    def together(name: str) -> Any:
        return np.stack([rule[name] for rule in rules]).astype(np.float32)

    w, u, new, h = (torch.from_numpy(together(name)).to(k.dtype) for name in ("w", "u", "new", "states"))
    g = torch.from_numpy(together("sums"))
    named: dict[str, Any] = {"chunk_size": CHUNK}
    if len(lengths) > 1:
        chunks = [n for i, length in enumerate(lengths) for j in range(-(-length // CHUNK)) for n in (i, j)]
        named |= {"cu_seqlens": [0, *(end for _, end in spans)], "chunk_indices": chunks}
    results = [together("states"), together("new"), np.concatenate([rule["last"] for rule in rules]).astype(np.float32)]
    outputs = together("out")
    states = {"g": g, "initial_state": first, "output_final_state": True}
    return [
        Case(H, label, (k, w, u), named | states, lambda *_, **__: results, bound=2.0**-5),
        Case(OUT, label, (q, k, new, h, scale), named | {"g": g}, lambda *_, **__: outputs, bound=2.0**-5),
    ]


VALID = [
    *cases("batches", bf16, (100,), 2, torch.float32),
    *cases("sequences", f16, (70, 3, 64), 1, torch.float16),
    *cases("no state before", bf16, (5,), 1, None),
]
A, B = VALID[:2]
WRONG = [
    Wrong(H, "chunk_size must be 64, got 128", A.args, A.kwargs | {"chunk_size": 128}),
    Wrong(H, "g must be given, got None", A.args, A.kwargs | {"g": None}),
    Wrong(H, "use_exp2 must be False", A.args, A.kwargs | {"use_exp2": True}),
    Wrong(OUT, "g_gamma must be None", B.args, B.kwargs | {"g_gamma": f32(4)}),
    Wrong(
        H, "chunk_indices must be the chunks of cu_seqlens", VALID[2].args, VALID[2].kwargs | {"chunk_indices": [0, 0]}
    ),
]
