"""Compares captured operators with the same calls in eager mode over PyTorch's own samples (OpInfo).

An operator is captured with one draw of its data and replayed with another, copied into the captured inputs.

cd tests && python -m capture.opinfo             all operators, a summary and what differs
cd tests && python -m capture.opinfo add matmul  some of them
"""

import argparse
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import graph_quant  # noqa: F401  (makes npu:0 available)
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_leaves, tree_map

from host.opinfo import UNDEFINED_VALUES, is_strided, on_cpu, on_npu, same, samples, seed_both

DTYPES = (torch.float32, torch.float16, torch.complex64, torch.int64, torch.bool)
# What a capture cannot have: values on the CPU, and another seed, which samples set.
NOT_CAPTURED = (
    "operation not permitted when stream is capturing",
    "cannot be captured on the host NPU",
    "can be called during stream capture only if new seed is the same",
)


def tensors(call: Any) -> list[torch.Tensor]:
    """Return the tensors among the arguments of a call."""
    return [leaf for leaf in tree_leaves(call) if isinstance(leaf, torch.Tensor)]


def with_tensors(call: Any, other: Any) -> Any:
    """Return a call with the tensors of another one; random Python numbers stay as they are."""
    replacements = iter(tensors(other))
    return tree_map(lambda item: next(replacements) if isinstance(item, torch.Tensor) else item, call)


def captured(function: Callable[[], Any]) -> tuple[Any, Any]:
    """Capture a function; return the graph and the results. As torch.npu.graph, without its garbage collections."""
    graph = torch.npu.NPUGraph()
    with torch.npu.stream(torch.npu.Stream()):
        graph.capture_begin()
        try:
            results = function()
        except BaseException as error:
            try:
                graph.capture_end()
            except RuntimeError:
                raise error from None
            raise
        graph.capture_end()
    return graph, results


def compare(op: OpInfo, first: Any, second: Any) -> str:
    """Return how the replay of a call compares with the eager call."""
    wanted = on_npu(second)
    try:
        seed_both(1)
        expected = on_cpu(op.op(wanted[0], *wanted[1], **wanted[2]))
    except Exception:
        return "not run"
    arguments, other = on_npu(first), on_npu(second)
    before = on_cpu(arguments)
    try:
        graph, results = captured(lambda: op.op(arguments[0], *arguments[1], **arguments[2]))
    except Exception as error:
        if any(why in f"{error}{error.__context__}" for why in NOT_CAPTURED):
            return "needs values"
        raise
    same(before, on_cpu(arguments), values=True)
    for into, source in zip(tensors(arguments), tensors(other), strict=True):
        into.copy_(source)
    seed_both(1)
    graph.replay()
    same(expected, on_cpu(results), not UNDEFINED_VALUES.fullmatch(op.name))
    same(on_cpu(wanted), on_cpu(arguments), values=True)
    return "equal"


def check(op: OpInfo) -> tuple[Counter[str], str]:
    """Count the calls of an operator by outcome; return the first failure too."""
    counts = Counter[str]()
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        pairs = zip(*(samples(op, dtype, seed) for seed in (0, 1)), strict=True)
        for sample, other in pairs:
            if not is_strided(sample):
                continue
            first, second = ((s.input, s.args, s.kwargs) for s in (sample, other))
            if [x.size() for x in tensors(first)] != [x.size() for x in tensors(second)]:
                continue
            try:
                counts[compare(op, first, with_tensors(first, second))] += 1
            except Exception as error:
                message = " ".join((str(error).strip().splitlines() or [""])[-1].split())[:240]
                return counts, f"{dtype}: {type(error).__name__}: {message}"
    return counts, ""


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="operators to check (default: all)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    chosen = [op for op in op_db if not arguments.names or op.name in arguments.names]
    ended, calls = Counter[str](), Counter[str]()
    with torch.no_grad():
        for op in chosen:
            counts, difference = check(op)
            calls += counts
            ended["differ" if difference else "are equal" if counts["equal"] else "are not captured"] += 1
            if difference:
                print(f"{op.name}.{op.variant_test_name:30} {difference}", flush=True)
    summary = ", ".join(f"{number} {how}" for how, number in ended.most_common())
    print(f"of {len(chosen)} OpInfos, replayed and in eager mode, {summary}; calls: {dict(calls)}")
    return 1 if ended["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
