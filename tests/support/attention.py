"""Attention in NumPy, float64, row by row, written from the documents; and strategies for calls."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw

TABLE = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
Arrays = dict[str, Any]


def _array(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.float().numpy().astype(np.float64) if x.is_floating_point() else x.numpy()
    return x


def _rounded(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:  # type: ignore[type-arg]
    return torch.from_numpy(x).to(dtype).double().numpy()


def _nibbles(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    lanes = (x[..., None] >> np.arange(0, 32, 4)) & 15
    return np.where(lanes > 7, lanes - 16, lanes).reshape(*x.shape[:-1], -1)


class Statement:
    """One call, by the names of npu_fused_infer_attention_score; `expected()` is the result and the lse."""

    def __init__(self, arguments: Arrays) -> None:
        self.dtype = arguments["query"].dtype
        self.value_dtype = arguments["value"].dtype
        self.given = {name: _array(value) for name, value in arguments.items()}
        self.heads = arguments["num_heads"]
        self.kv_heads = arguments.get("num_key_value_heads") or self.heads
        self.layout, _, out = arguments["input_layout"].partition("_")
        self.out_layout = out or self.layout
        for name in ("key", "value", "key_shared_prefix", "value_shared_prefix"):
            if self.given.get(name) is not None and self.given[name].dtype == np.int32:
                self.given[name] = _nibbles(self.given[name])

    def get(self, name: str, default: Any = None) -> Any:
        value = self.given.get(name)
        return default if value is None else value

    def vector(self, x: Any, batch: int, head: int, token: int, heads: int) -> Any:
        """Where the channels of one token and head stand."""
        if self.layout == "BSH":
            width = x.shape[2] // heads
            return x[batch, token, head * width : (head + 1) * width]
        index = {"B": batch, "S": token, "N": head, "T": token}
        return x[tuple(index[axis] for axis in self.layout[:-1])]

    def cached(self, name: str, batch: int, head: int, token: int) -> Any:
        x, table = self.given[name], self.get("block_table")
        if table is None:
            return self.vector(x, batch, head, token, self.kv_heads)
        size = self.given["block_size"]
        block, slot = table[batch, token // size], token % size
        if x.ndim == 3:
            width = x.shape[2] // self.kv_heads
            return x[block, slot, head * width : (head + 1) * width]
        return x[block, head, slot] if x.ndim == 4 else x[block, head, :, slot].reshape(-1)

    def dequantised(self, side: str, x: Any, batch: int, head: int, token: int, parameter_token: int) -> Any:
        scale, offset = self.get(f"{side}_antiquant_scale"), self.get(f"{side}_antiquant_offset")
        mode = self.get(f"{side}_antiquant_mode", 0)
        if scale is None:
            if self.get("antiquant_scale") is None:
                return x
            half = 0 if side == "key" else 1
            scale, mode = self.given["antiquant_scale"][half], self.get("antiquant_mode", 0)
            offset = None if self.get("antiquant_offset") is None else self.given["antiquant_offset"][half]
        return (x + self.parameter(offset, mode, batch, head, token, parameter_token, x.size)) * self.parameter(
            scale, mode, batch, head, token, parameter_token, x.size
        )

    def parameter(self, x: Any, mode: int, batch: int, head: int, token: int, parameter_token: int, width: int) -> Any:
        if x is None:
            return 0.0
        if mode == 0:
            return x.reshape(-1)[0] if x.size == 1 else x.reshape(self.kv_heads, width)[head]
        if mode == 1:
            return x.reshape(-1, x.shape[-1])[batch, parameter_token]
        if mode == 2:
            return x.reshape(-1)[head]
        if mode == 3:
            return x.reshape(-1, self.kv_heads, x.shape[-1])[batch, head, parameter_token]
        size = self.given["block_size"]
        block, index = self.given["block_table"][batch, token // size], token % size
        return x[block, index] if mode == 4 else x[block, head, index]

    def query_tokens(self) -> list[tuple[int, list[int]]]:
        """For each sequence its batch and its tokens of query."""
        lengths = self.get("actual_seq_lengths")
        if "T" in self.layout:
            starts = [0, *lengths]
            return [(0, list(range(starts[i], starts[i + 1]))) for i in range(len(lengths))]
        shape = self.given["query"].shape
        batches, tokens = shape[0], shape[self.layout.index("S")]
        return [(b, self.padded(tokens, lengths if tokens > 1 else None, b, "query")) for b in range(batches)]

    def padded(self, tokens: int, lengths: Any, batch: int, side: str) -> list[int]:
        length = tokens if lengths is None else lengths[0] if len(lengths) == 1 else lengths[batch]
        padding = self.get(f"{side}_padding_size")
        if padding is None or lengths is None:
            return list(range(length))
        end = tokens - max(0, int(padding[0]))
        return list(range(end - length, end))

    def key_tokens(self, sequence: int) -> tuple[int, list[int]]:
        lengths = self.get("actual_seq_lengths_kv")
        if self.get("block_table") is not None:
            return sequence, list(range(lengths[0] if len(lengths) == 1 else lengths[sequence]))
        if "T" in self.layout:
            starts = [0, *lengths]
            return 0, list(range(starts[sequence], starts[sequence + 1]))
        shape = self.given["key"].shape
        return sequence, self.padded(shape[self.layout.index("S")], lengths, sequence, "kv")

    def hidden(self, sequence: int, i: int, q: int, j: int, k: int, queries: int, keys: int) -> tuple[bool, bool]:
        """Whether query i of a sequence does not attend to key j: by position, and by mask."""
        mode, mask = self.get("sparse_mode", 0), self.get("atten_mask")
        one = self.given["query"].shape[self.layout.index("S")] == 1 if "S" in self.layout else False
        plain = one and self.get("query_rope") is None
        if mode == 2 and not plain:
            return j > i, False
        if mode >= 3:
            if plain:
                return False, False
            behind = keys - queries
            if mode == 3:
                return j > i + behind, False
            return j > i + behind + self.get("next_tokens") or j < i + behind - self.get("pre_tokens"), False
        if mask is None:
            return False, False
        rows = mask.reshape(-1, *mask.shape[-2:]) if not (plain and mask.ndim == 2) else mask[:, None]
        by_mask = bool(rows[sequence if rows.shape[0] > 1 else 0][q, k])
        padded = self.get("query_padding_size") is not None or self.get("kv_padding_size") is not None
        band = mode == 0 and not plain and not padded
        big = 2147483647
        by_place = band and (j > i + self.get("next_tokens", big) or j < i - self.get("pre_tokens", big))
        return by_place, by_mask

    def expected(self) -> list[Any]:
        sequences = self.query_tokens()
        width = self.width()
        shape = self.given["query"].shape
        if "T" in self.layout:
            sizes = (1, self.heads, shape[self.layout.index("T")])
        elif self.layout == "BSH":
            sizes = (shape[0], self.heads, shape[1])
        else:
            sizes = (shape[0], self.heads, shape[self.layout.index("S")])
        out, lse = np.zeros((*sizes, width)), np.full(sizes, np.inf)
        for sequence, (batch, tokens) in enumerate(sequences):
            for head in range(self.heads):
                keys, values, positions = self.keys_and_values(sequence, head * self.kv_heads // self.heads)
                for i, token in enumerate(tokens):
                    result = self.row(sequence, batch, head, i, token, len(tokens), keys, values, positions)
                    if result is not None:
                        out[batch, head, token], lse[batch, head, token] = result
        return [self.stored(out), self.arranged_lse(lse)]

    def width(self) -> int:
        value = self.given["value"]
        if value.ndim == 5:
            return int(value.shape[2] * value.shape[4])
        flat = value.ndim == 3 and (self.layout == "BSH" or self.get("block_table") is not None)
        return int(value.shape[-1] // (self.kv_heads if flat else 1))

    def keys_and_values(self, sequence: int, head: int) -> tuple[list[Any], list[Any], list[int]]:
        batch, tokens = self.key_tokens(sequence)
        prefix = self.get("key_shared_prefix")
        length = 0
        keys, values = [], []
        if prefix is not None:
            whole = prefix.shape[2 if self.layout == "BNSD" else 1]
            length = self.get("actual_shared_prefix_len", [whole])[0]
            for token in range(length):
                for side, rows in (("key", keys), ("value", values)):
                    x = self.vector(self.given[f"{side}_shared_prefix"], 0, head, token, self.kv_heads)
                    rows.append(self.dequantised(side, x.astype(np.float64), sequence, head, token, token))
        for token in tokens:
            key = self.cached("key", batch, head, token).astype(np.float64)
            key = self.dequantised("key", key, sequence, head, token, token + length)
            if self.get("key_rope") is not None:
                key = np.concatenate([key, self.cached("key_rope", batch, head, token)])
            keys.append(key)
            value = self.cached("value", batch, head, token).astype(np.float64)
            values.append(self.dequantised("value", value, sequence, head, token, token + length))
        first = tokens[0] if tokens else 0
        return keys, values, [first + index for index in range(len(keys))]

    def row(
        self,
        sequence: int,
        batch: int,
        head: int,
        i: int,
        token: int,
        queries: int,
        keys: list[Any],
        values: list[Any],
        indices: list[int],
    ) -> tuple[Any, float] | None:
        if not keys:
            return None
        query = self.vector(self.given["query"], batch, head, token, self.heads).astype(np.float64)
        if self.get("query_rope") is not None:
            query = np.concatenate([query, self.vector(self.given["query_rope"], batch, head, token, self.heads)])
        scores = np.array(keys) @ query * self.get("scale", 1.0)
        shift = self.get("pse_shift")
        if shift is not None:
            scores = scores + shift[sequence if shift.shape[0] > 1 else 0, head, token, indices]
        hidden = [self.hidden(sequence, i, token, j, k, queries, len(keys)) for j, k in enumerate(indices)]
        unseen = np.array([one or other for one, other in hidden])
        masked = unseen if self.get("inner_precise", 0) & 2 else np.array([one for one, _ in hidden])
        if masked.all():
            return None
        scores = np.where(unseen, -3.4028234663852886e38, scores)
        weights = np.exp(scores - scores.max())
        total = weights.sum()
        lse = float(np.log(total) + scores.max())
        sink = self.get("learnable_sink")
        if sink is not None:
            total = total + np.exp(sink[head] - scores.max())
        if self.value_dtype in (torch.float16, torch.bfloat16):
            weights = _rounded(weights, self.value_dtype)
        return weights @ np.array(values) / total, lse

    def stored(self, out: np.ndarray) -> Any:  # type: ignore[type-arg]
        orders = {"BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "BNSD": (0, 1, 2, 3), "NBSD": (1, 0, 2, 3)}
        if self.out_layout == "TND":
            arranged = out[0].transpose(1, 0, 2)
        elif self.out_layout in ("NTD", "NSD"):
            arranged = out[0]
        else:
            arranged = out.transpose(orders[self.out_layout])
        if self.out_layout == "BSH":
            arranged = arranged.reshape(*arranged.shape[:2], -1)
        return torch.from_numpy(np.ascontiguousarray(arranged)).to(self.dtype).float().numpy()

    def arranged_lse(self, lse: np.ndarray) -> Any:  # type: ignore[type-arg]
        if not self.get("softmax_lse_flag", False):
            return np.zeros(0, np.float32)
        return (lse[0].T if "T" in self.layout else lse)[..., None].astype(np.float32)


def _floats(draw: Draw, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    return torch.randn(shape, generator=generator).to(dtype)


def _integers(draw: Draw, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    return torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)


def _laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """(batch, head, token, channel) as a layout."""
    if layout == "BSH":
        return x.transpose(1, 2).flatten(-2).contiguous()
    if layout == "BSND":
        return x.transpose(1, 2).contiguous()
    if layout == "TND":
        return x[0].transpose(0, 1).contiguous()
    return x[0].contiguous() if layout in ("NTD", "NSD") else x


def _ends(draw: Draw, tokens: int, sequences: int) -> list[int]:
    cuts = sorted(draw(st.lists(st.integers(0, tokens), min_size=sequences - 1, max_size=sequences - 1)))
    return [*cuts, tokens]


@st.composite
def inference_calls(draw: Draw) -> Arrays:
    """Allowed calls with data, by the names of npu_fused_infer_attention_score."""
    kind = draw(st.sampled_from(["plain", "plain", "packed", "paged", "rope", "cache", "prefix", "padding"]))
    dtype = draw(st.sampled_from([torch.float16, torch.bfloat16]))
    kv_heads, group = draw(st.sampled_from([(1, 1), (2, 1), (1, 3), (2, 2)]))
    heads = kv_heads * group
    arguments: Arrays = {"num_heads": heads, "num_key_value_heads": kv_heads, "scale": 0.25}
    packed = kind == "packed" or (kind in ("paged", "rope") and draw(st.booleans()))
    batch = 1 if packed else draw(st.sampled_from([1, 2]))
    tokens, keys = draw(st.sampled_from([1, 2, 5])), draw(st.sampled_from([1, 3, 6]))
    latent = kind == "rope" and heads == 1 and draw(st.booleans())
    width = 512 if latent else 128 if kind == "rope" else 64 if packed else draw(st.sampled_from([16, 32, 64]))
    if packed:
        tokens, keys = tokens + 2, keys + 2
        layouts = ["TND", "TND_NTD"] if latent else ["TND", "NTD_TND", *([] if kind == "rope" else ["NTD"])]
    elif latent:
        layouts = ["BSND", "BSH_NBSD", "BSND_NBSD", "BNSD_NBSD"]
    else:
        layouts = ["BSH", "BSND", "BNSD", *([] if tokens == 1 else ["BNSD_BSND"])]
        layouts += ["BSH_BNSD", "BSND_BNSD"] if kind in ("plain", "rope") and width >= 64 else []
    arguments["input_layout"] = draw(st.sampled_from(layouts))
    layout = arguments["input_layout"].partition("_")[0]
    if kind == "packed" and arguments["input_layout"] == "TND":
        width = draw(st.sampled_from([64, 48, 256]))
    arguments["query"] = _laid_out(_floats(draw, dtype, batch, heads, tokens, width), layout)
    _add_cache(draw, arguments, kind, layout, dtype, (batch, kv_heads, keys, width), packed, tokens)
    if kind == "rope":
        arguments["query_rope"] = _laid_out(_floats(draw, dtype, batch, heads, tokens, 64), layout)
        arguments["key_rope"] = _laid_out(_floats(draw, dtype, batch, kv_heads, keys, 64), layout)
    _add_mask(draw, arguments, kind, batch, tokens, keys, packed)
    if latent and arguments["sparse_mode"] in (1, 2):
        del arguments["atten_mask"]
        arguments["sparse_mode"] = 0
    if kind == "plain" and not arguments["input_layout"].endswith("_BNSD") and draw(st.booleans()):
        arguments["pse_shift"] = _floats(draw, dtype, draw(st.sampled_from([1, batch])), heads, tokens, keys)
    arguments["softmax_lse_flag"] = not latent and draw(st.booleans())
    return arguments


def _add_cache(
    draw: Draw,
    arguments: Arrays,
    kind: str,
    layout: str,
    dtype: torch.dtype,
    sizes: tuple[int, int, int, int],
    packed: bool,
    tokens: int,
) -> None:
    batch, heads, keys, width = sizes
    sequences = batch
    if packed:
        sequences = draw(st.sampled_from([1, 2, 3]))
        arguments["actual_seq_lengths"] = _ends(draw, tokens, sequences)
        arguments["actual_seq_lengths_kv"] = _ends(draw, keys, sequences)
    elif kind == "padding":
        arguments["actual_seq_lengths"] = [draw(st.integers(1, tokens)) for _ in range(batch)]
        arguments["actual_seq_lengths_kv"] = [draw(st.integers(1, keys)) for _ in range(batch)]
        most, most_kv = max(arguments["actual_seq_lengths"]), max(arguments["actual_seq_lengths_kv"])
        arguments["kv_padding_size"] = torch.tensor([draw(st.integers(0, keys - most_kv))])
        if tokens > 1:
            arguments["query_padding_size"] = torch.tensor([draw(st.integers(0, tokens - most))])
    elif draw(st.booleans()):
        arguments["actual_seq_lengths"] = draw(st.sampled_from([[tokens], [draw(st.integers(0, tokens))] * batch]))
        arguments["actual_seq_lengths_kv"] = [draw(st.integers(0, keys)) for _ in range(batch)]
    if kind == "paged":
        _add_blocks(draw, arguments, layout, dtype, sequences, heads, width)
        return
    if kind == "cache":
        for side in ("key", "value"):
            arguments[side] = _laid_out(_integers(draw, batch, heads, keys, 32), layout)
        if width != 32:
            arguments["query"] = _laid_out(_floats(draw, dtype, batch, arguments["num_heads"], tokens, 32), layout)
        _add_antiquant(draw, arguments, dtype, batch, heads, keys, tokens)
        return
    for side in ("key", "value"):
        arguments[side] = _laid_out(_floats(draw, dtype, batch, heads, keys, width), layout)
    if kind == "prefix":
        length = draw(st.sampled_from([1, 4]))
        for side in ("key", "value"):
            arguments[f"{side}_shared_prefix"] = _laid_out(_floats(draw, dtype, 1, heads, length, width), layout)
        if draw(st.booleans()):
            arguments["actual_shared_prefix_len"] = [draw(st.integers(0, length))]


def _add_blocks(
    draw: Draw, arguments: Arrays, layout: str, dtype: torch.dtype, sequences: int, heads: int, width: int
) -> None:
    forms = ["flat", *([] if layout in ("BSH", "BSND") else ["heads"]), *(["nz"] if width == 64 else [])]
    form = draw(st.sampled_from(forms))
    blocks, size = 2 * sequences + 1, 16
    shape = {
        "flat": (blocks, size, heads * width),
        "heads": (blocks, heads, size, width),
        "nz": (blocks, heads, width // 16, size, 16),
    }[form]
    arguments["key"], arguments["value"] = _floats(draw, dtype, *shape), _floats(draw, dtype, *shape)
    order = draw(st.permutations(range(blocks)))[: 2 * sequences]
    arguments["block_table"] = torch.tensor(order, dtype=torch.int32).reshape(sequences, 2)
    arguments["block_size"] = size
    arguments["actual_seq_lengths_kv"] = [draw(st.integers(0, 2 * size)) for _ in range(sequences)]


def _add_antiquant(
    draw: Draw, arguments: Arrays, dtype: torch.dtype, batch: int, heads: int, keys: int, tokens: int
) -> None:
    def parameter(mode: int) -> torch.Tensor:
        shape, kind = {
            0: ((heads, 1, 32), dtype),
            1: ((batch, keys), torch.float32),
            2: ((heads,), dtype),
            3: ((batch, heads, keys), torch.float32),
        }[mode]
        return (_floats(draw, torch.float32, *shape).abs() * 0.01 + 0.001).to(kind)

    if (tokens == 1 or dtype == torch.float16) and draw(st.booleans()):
        mode = draw(st.sampled_from([0, 1] if tokens == 1 else [0]))
        arguments["antiquant_mode"] = mode
        arguments["antiquant_scale"] = torch.stack([parameter(mode), parameter(mode)])
        if draw(st.booleans()):
            arguments["antiquant_offset"] = torch.stack([parameter(mode), parameter(mode)])
        return
    key_mode = draw(st.sampled_from([0, 0, 1, 1, 2, 3] if tokens == 1 else [0, 1]))
    may_differ = tokens == 1 and dtype == torch.float16 and key_mode == 0
    value_mode = 1 if may_differ and draw(st.booleans()) else key_mode
    has_offset = draw(st.booleans())
    for side, mode in (("key", key_mode), ("value", value_mode)):
        arguments[f"{side}_antiquant_mode"] = mode
        arguments[f"{side}_antiquant_scale"] = parameter(mode)
        if has_offset:
            arguments[f"{side}_antiquant_offset"] = parameter(mode)


def _has_more_queries(arguments: Arrays) -> bool:
    """Whether a packed sequence has more queries than keys, which mode 3 refuses."""
    queries = np.diff([0, *arguments["actual_seq_lengths"]])
    ends = arguments["actual_seq_lengths_kv"]
    return bool((queries > (ends if "block_table" in arguments else np.diff([0, *ends]))).any())


def _add_mask(draw: Draw, arguments: Arrays, kind: str, batch: int, tokens: int, keys: int, packed: bool) -> None:
    if kind == "paged":
        keys = 32
    if kind == "prefix":
        keys += arguments["key_shared_prefix"].shape[2 if arguments["input_layout"].startswith("BNSD") else 1]
    modes = [0, 3, 4] if packed else [0, 0, 1, 2, 3, 4]
    mode = arguments["sparse_mode"] = draw(st.sampled_from(modes))
    arguments["pre_tokens"], arguments["next_tokens"] = draw(
        st.sampled_from([(2147483647, 2147483647), (2147483647, 0), (1, 0), (0, 2), (3, 3), (2, -1), (-1, 3)])
    )
    if arguments["pre_tokens"] < 0 and keys == 1:
        arguments["pre_tokens"] = 0  # a band before all keys is refused
    if packed and mode == 3 and _has_more_queries(arguments):
        mode = arguments["sparse_mode"] = 4
    if mode >= 2 and not (mode == 2 and tokens == 1 and kind != "rope" and not packed):
        arguments["atten_mask"] = TABLE
    elif mode == 1 or (not packed and draw(st.booleans())):
        generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
        rows = (1, 1) if draw(st.booleans()) else (batch, 1)
        mask = torch.rand(*rows, tokens, keys, generator=generator) > 0.6
        arguments["atten_mask"] = mask.to(draw(st.sampled_from([torch.bool, torch.int8, torch.uint8])))
        arguments["inner_precise"] = draw(st.sampled_from([0, 1 if kind == "cache" and tokens == 1 else 2]))


# Statement and operator round the weights and the result alike. What is left is where a sum in float32 and one in
# float64 fall on two sides of a rounding: a unit in the last place of a bfloat16 weight or result, 2**-8, or of both.
BOUND = 2.0**-7


def expected(**arguments: Any) -> list[Any]:
    return Statement(arguments).expected()


@st.composite
def nearly(draw: Draw, allowed: st.SearchStrategy[Arrays]) -> tuple[tuple[Any, ...], Arrays]:
    """Return a call; about half have one argument changed: omitted, of another dtype, or shorter."""
    arguments = draw(allowed)
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(arguments)))
        value = arguments[name]
        if isinstance(value, torch.Tensor):
            change = draw(st.sampled_from(["dtype", "size", "rank"]))
            changed = {"dtype": value.double(), "size": value[..., :-1], "rank": value.unsqueeze(0)}[change]
            arguments = {**arguments, name: changed}
        elif name not in ("scale", "softmax_lse_flag"):
            arguments = {key: kept for key, kept in arguments.items() if key != name}
    return (), arguments
