"""Attention for inference, computed sequence by sequence, for every layout, cache form and attribute."""

from __future__ import annotations

import torch
from graph_quant.chip import is_950
from graph_quant.refusals import Refusal
from torch import Tensor

from . import antiquant, masks, paging, token_spans
from .arithmetic import Arithmetic, Int8Latent, Int8Prompt
from .ascend950 import check_rows, find_undescribed
from .inference_call import Attributes, Operands
from .layouts import from_bnsd, to_bnsd
from .post_quant import quantise_result
from .results import result_dtype, value_channels
from .sequence_attention import CachedTokens, DenseTokens, ScoreMod, TokenSource, attend
from .split_fuse import is_split_fuse
from .token_spans import TokenSpan

_ROW_FIX = 2
_LATENT, _CAUSAL = 512, 3


def fused_attention(operands: Operands, attrs: Attributes) -> tuple[Tensor, Tensor]:
    """The result in its layout, and the log-sum-exp: (T, head, 1) or (batch, head, token, 1)."""
    on_950 = is_950()
    undescribed = find_undescribed(operands, attrs) if on_950 else None
    if undescribed is not None:
        raise Refusal(f"{attrs.op}: {undescribed}")
    query = _concat_rope(operands.query, operands.query_rope, attrs)
    out = torch.zeros(*query.shape[:3], value_channels(operands, attrs))
    lse = torch.full(query.shape[:3], torch.inf)
    queries = _query_spans(operands, attrs, query)
    source = _KeyValueSource(operands, attrs, len(queries))
    _check_packed(operands, attrs, query.size(2), queries, source)
    score_mods = _ScoreMods(operands, attrs, query.size(2))
    for sequence, span in enumerate(queries):
        if span.length == 0:
            continue
        keys, values, key_span = source.sequence(sequence)
        if keys.tokens == 0 and is_split_fuse(operands, attrs) and not on_950:
            continue  # the kernel writes the initial values, also beside a sink
        score_mod = score_mods.of(sequence, span, key_span, keys.tokens)
        if on_950:
            check_rows(attrs.op, score_mod.hidden, keys.tokens, sequence)
        if query.size(2) > 1:
            _check_offset(operands, attrs, sequence, span.length, keys.tokens)
        arithmetic = _arithmetic(operands, attrs, span)
        index = (span.batch, slice(None), slice(span.start, span.stop))
        out[index], lse[index] = attend(query[index], keys, values, score_mod, arithmetic)
    result = quantise_result(out, operands.quant_scale2, operands.quant_offset2, result_dtype(operands))
    return from_bnsd(result, attrs.out_layout), _format_lse(lse, attrs)


def _format_lse(lse: Tensor, attrs: Attributes) -> Tensor:
    if not attrs.softmax_lse_flag:
        return torch.empty(0)
    return (lse.squeeze(0).transpose(0, 1).contiguous() if attrs.is_packed else lse).unsqueeze(-1)


def _concat_rope(x: Tensor, rope: Tensor | None, attrs: Attributes) -> Tensor:
    """Query as (batch, head, token, channel), with the channels of its rope part appended."""
    first = to_bnsd(x, attrs.layout, attrs.num_heads)
    if rope is None:
        return first
    second = to_bnsd(rope, attrs.layout, attrs.num_heads)
    return torch.cat([first.float(), second.float()], dim=-1)


def _query_spans(operands: Operands, attrs: Attributes, query: Tensor) -> list[TokenSpan]:
    batches, tokens = query.size(0), query.size(2)
    if attrs.is_packed:
        return token_spans.packed_spans(
            attrs.op, attrs.name("actual_seq_lengths"), attrs.actual_seq_lengths or (), tokens
        )
    lengths = attrs.actual_seq_lengths if tokens > 1 else None
    padding = _padding(operands.query_padding_size) if lengths is not None else -1
    return token_spans.batched_spans(attrs.op, attrs.name("actual_seq_lengths"), lengths, batches, tokens, padding)


def _check_packed(
    operands: Operands, attrs: Attributes, tokens: int, queries: list[TokenSpan], source: _KeyValueSource
) -> None:
    """The kernel of packed sequences takes no tokens outside of them, and in mode 3 no more queries than keys.

    A sequence without keys, with which engines pad a batch, has zeros as its result and an infinite log-sum-exp.
    """
    is_latent = operands.query_rope is not None and operands.query.size(-1) == _LATENT
    if not attrs.is_packed or is_latent or operands.key.dtype != operands.query.dtype:
        return
    sides = [("actual_seq_lengths", queries, tokens)]
    if operands.block_table is None:
        sides.append(("actual_seq_lengths_kv", source.spans, source.key.size(2)))
    for name, spans, total in sides:
        if spans[-1].stop != total:
            where = f"{attrs.name(name)}[{len(spans) - 1}]"
            raise Refusal(f"{attrs.op}: {where} must equal {total}, the number of tokens, got {spans[-1].stop}")
    if attrs.sparse_mode == _CAUSAL:
        takes_no_keys = is_split_fuse(operands, attrs)
        for sequence, (query, key) in enumerate(zip(queries, source.spans, strict=False)):
            if query.length > key.length and not (takes_no_keys and key.length == 0):
                raise Refusal(
                    f"{attrs.op}: sequence {sequence} must have a key for each query in sparse_mode 3 and layout "
                    f"{attrs.input_layout}, got {key.length} and {query.length}"
                )


def _check_offset(operands: Operands, attrs: Attributes, sequence: int, queries: int, keys: int) -> None:
    """Kernels refuse an offset where the position of a query hides all keys: they do not quantise such rows."""
    is_padded = operands.query_padding_size is not None or operands.kv_padding_size is not None
    mode = attrs.sparse_mode if operands.atten_mask is not None else masks.MASK_ALONE
    if operands.quant_offset2 is None or (mode == 0 and is_padded):
        return
    is_void = {
        0: attrs.next_tokens < 0 or queries - keys > attrs.pre_tokens,
        3: keys < queries,
        4: attrs.next_tokens + keys < queries,
    }
    if is_void.get(mode, False):
        raise Refusal(
            f"{attrs.op}: {attrs.name('quant_offset2')} must be None where a query sees no key by its position, got a "
            f"tensor beside {queries} queries and {keys} keys of sequence {sequence} in sparse_mode {mode}"
        )


def _padding(size: Tensor | None) -> int:
    """The number of padding tokens after a sequence; -1 where sequences are aligned to the left."""
    return -1 if size is None else max(0, int(size.reshape(-1)[0]))


class _KeyValueSource:
    """The keys and values of each sequence, dense or paged."""

    def __init__(self, operands: Operands, attrs: Attributes, sequences: int) -> None:
        self.operands, self.attrs = operands, attrs
        self.key_parameters, self.value_parameters = _cache_scales(operands, attrs)
        self.prefix_length = _prefix_length(operands, attrs)
        if operands.block_table is None:
            self.key = self._to_bnsd(operands.key)
            self.value = self._to_bnsd(operands.value)
            self.rope = None if operands.key_rope is None else self._to_bnsd(operands.key_rope)
            self.spans = self._spans()
        else:
            most = operands.block_table.size(1) * attrs.block_size
            name = attrs.name("actual_seq_lengths_kv")
            lengths = token_spans.lengths_per_batch(attrs.op, name, attrs.actual_seq_lengths_kv, sequences, most)
            self.spans = [TokenSpan(batch, 0, length) for batch, length in enumerate(lengths)]
        if len(self.spans) != sequences:
            raise Refusal(
                f"{attrs.op}: {attrs.name('actual_seq_lengths_kv')} must have as many elements as "
                f"{attrs.name('actual_seq_lengths')}, {sequences}, got {len(self.spans)}"
            )

    def _to_bnsd(self, x: Tensor) -> Tensor:
        return antiquant.unpack_int4(to_bnsd(x, self.attrs.layout, self.attrs.kv_heads))

    def _spans(self) -> list[TokenSpan]:
        op, name = self.attrs.op, self.attrs.name("actual_seq_lengths_kv")
        lengths = self.attrs.actual_seq_lengths_kv
        batches, tokens = self.key.size(0), self.key.size(2)
        if self.attrs.is_packed:
            return token_spans.packed_spans(op, name, lengths or (), tokens)
        padding = -1 if lengths is None else _padding(self.operands.kv_padding_size)
        return token_spans.batched_spans(op, name, lengths, batches, tokens, padding)

    def sequence(self, index: int) -> tuple[CachedTokens, CachedTokens, TokenSpan]:
        """The keys and values of sequence ``index``, and their span in masks."""
        span = self.spans[index]
        blocks = None
        if self.operands.block_table is None:
            key, value, rope = self._unpaged(span)
        else:
            blocks = self._blocks(index, span.length)
            key, value, rope = self._paged(blocks, span.length)
        parts = [key] if rope is None else [key, rope]
        seen = TokenSpan(span.batch, span.start, span.stop + self.prefix_length)
        return (
            CachedTokens(parts, self._dequantiser(self.key_parameters, seen, key, blocks)),
            CachedTokens([value], self._dequantiser(self.value_parameters, seen, value, blocks)),
            seen,
        )

    def _unpaged(self, span: TokenSpan) -> tuple[TokenSource, TokenSource, TokenSource | None]:
        index = (span.batch, slice(None), slice(span.start, span.stop))
        key = self._after_prefix(self.key[index], self.operands.key_shared_prefix)
        value = self._after_prefix(self.value[index], self.operands.value_shared_prefix)
        return DenseTokens(key), DenseTokens(value), None if self.rope is None else DenseTokens(self.rope[index])

    def _blocks(self, index: int, length: int) -> Tensor:
        table, attrs = self.operands.block_table, self.attrs
        assert table is not None
        return paging.checked_blocks(attrs.op, table, index, length, attrs.block_size, self.operands.key.size(0))

    def _paged(self, blocks: Tensor, length: int) -> tuple[TokenSource, TokenSource, TokenSource | None]:
        def paged_tokens(cache: Tensor) -> TokenSource:
            return paging.PagedTokens(cache, blocks, length, self.attrs.kv_heads)

        rope = self.operands.key_rope
        return (
            paged_tokens(self.operands.key),
            paged_tokens(self.operands.value),
            None if rope is None else paged_tokens(rope),
        )

    def _after_prefix(self, x: Tensor, prefix: Tensor | None) -> Tensor:
        if prefix is None:
            return x
        return torch.cat([self._to_bnsd(prefix)[0, :, : self.prefix_length], x], dim=1)

    def _dequantiser(
        self, parameters: antiquant.CacheScales | None, seen: TokenSpan, x: TokenSource, blocks: Tensor | None
    ) -> antiquant.Dequantiser | None:
        if parameters is None:
            return None
        return parameters.of_sequence(seen.batch, seen.start, x.heads, x.tokens, blocks)


def _prefix_length(operands: Operands, attrs: Attributes) -> int:
    prefix = operands.key_shared_prefix
    if prefix is None:
        return 0
    tokens = prefix.size(2 if attrs.layout == "BNSD" else 1)
    lengths = attrs.actual_shared_prefix_len
    return token_spans.lengths_per_batch(attrs.op, "actual_shared_prefix_len", lengths, 1, tokens)[0]


def _cache_scales(
    operands: Operands, attrs: Attributes
) -> tuple[antiquant.CacheScales | None, antiquant.CacheScales | None]:
    """The scales of key and value: two tensors, the halves of one tensor, or none."""
    if operands.query.dtype == torch.int8:
        return None, None
    if operands.key_antiquant_scale is not None and operands.value_antiquant_scale is not None:
        return (
            antiquant.CacheScales(
                attrs.key_antiquant_mode, operands.key_antiquant_scale, operands.key_antiquant_offset
            ),
            antiquant.CacheScales(
                attrs.value_antiquant_mode, operands.value_antiquant_scale, operands.value_antiquant_offset
            ),
        )
    scale, offset = operands.antiquant_scale, operands.antiquant_offset
    if scale is None:
        return None, None
    key, value = (
        antiquant.CacheScales(attrs.antiquant_mode, scale[half], None if offset is None else offset[half])
        for half in (0, 1)
    )
    return key, value


def _arithmetic(operands: Operands, attrs: Attributes, query: TokenSpan) -> Arithmetic:
    if operands.query.dtype != torch.int8:
        is_quantised = operands.value.dtype in (torch.int8, torch.int32)
        return Arithmetic(attrs.scale, torch.float32 if is_quantised else operands.value.dtype)
    if operands.dequant_scale_query is not None:
        scales = to_bnsd(operands.dequant_scale_query.unsqueeze(-1), _scale_layout(attrs), attrs.num_heads)
        rows = scales[query.batch, :, query.start : query.stop].flatten()
        key_scale, value_scale = (
            _read_scalar(operands.key_antiquant_scale),
            _read_scalar(operands.value_antiquant_scale),
        )
        return Int8Latent(attrs.scale, row_scale=rows * key_scale, value_scale=value_scale)
    return Int8Prompt(
        attrs.scale,
        dequant_scale1=_read_scalar(operands.dequant_scale1),
        quant_scale1=_read_scalar(operands.quant_scale1),
        dequant_scale2=_read_scalar(operands.dequant_scale2),
    )


def _scale_layout(attrs: Attributes) -> str:
    """The layout of the scales of query: that of query without channels."""
    return "BSND" if attrs.layout == "BSH" else attrs.layout


def _read_scalar(x: Tensor | None) -> float:
    """The value of a one-element tensor; uint64 and int64 hold the bits of a float32."""
    if x is None:
        return 1.0
    if x.dtype in (torch.uint64, torch.int64):
        return float(x.view(torch.int64).to(torch.int32).view(torch.float32).reshape(-1)[0])
    return float(x.reshape(-1)[0])


class _ScoreMods:
    """The mask, shift and sink of each sequence."""

    def __init__(self, operands: Operands, attrs: Attributes, tokens: int) -> None:
        self.operands, self.attrs = operands, attrs
        mask, mode = operands.atten_mask, attrs.sparse_mode
        self.tree = None
        if mode == masks.TREE and mask is not None:
            self.tree = masks.Tree(attrs.op, mask, attrs.actual_seq_lengths if attrs.is_packed else None)
            mask, mode = None, masks.MASK_ALONE
        # One query without a rope part goes to a kernel that has no sparse modes, and reads tables as "nothing hidden".
        is_decode = tokens == 1 and operands.query_rope is None and not (attrs.is_packed or attrs.knows_modes)
        if mask is not None and mode >= (3 if is_decode else 2):
            masks.check_table(attrs.op, mask)
            mask = None
        is_padded = operands.query_padding_size is not None or operands.kv_padding_size is not None
        if is_decode or (mode == 0 and is_padded):
            mode = masks.MASK_ALONE
        dense_mask = None if mask is None else _given(mask, is_decode)
        self.mask = masks.Mask(mode, dense_mask, attrs.pre_tokens, attrs.next_tokens)

    def of(self, sequence: int, query: TokenSpan, key: TokenSpan, keys: int) -> ScoreMod:
        """The mask, shift and sink of one sequence."""
        by_position = self.mask.by_position(query.length, keys)
        by_mask = self.mask.by_mask(TokenSpan(sequence, query.start, query.stop), key)
        if self.tree is not None:
            by_mask = self.tree.hidden(sequence, query.length, keys)
        hidden = by_position if by_mask is None else by_mask if by_position is None else by_mask | by_position
        looked_for = hidden if self.attrs.inner_precise & _ROW_FIX else by_position
        sink = self.operands.learnable_sink
        return ScoreMod(
            self._shift(sequence, query, key),
            None if hidden is None else hidden.unsqueeze(0),
            None if sink is None else sink.float(),
            None if looked_for is None else looked_for.all(-1).unsqueeze(0),
        )

    def _shift(self, sequence: int, query: TokenSpan, key: TokenSpan) -> Tensor | None:
        shift = self.operands.pse_shift
        if shift is None:
            return None
        of_batch = shift[sequence if shift.size(0) > 1 else 0]
        return of_batch[:, query.start : query.stop, key.start : key.stop]


def _given(mask: Tensor, is_decode: bool) -> Tensor:
    """A mask as (batch or 1, query, key): with one query, two dimensions are batch and key."""
    if mask.dim() == 2:
        return mask.unsqueeze(1) if is_decode else mask.unsqueeze(0)
    return mask.squeeze(1) if mask.dim() == 4 else mask
