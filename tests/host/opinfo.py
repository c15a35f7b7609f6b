"""Compares operators on npu:0 with the CPU over PyTorch's own samples (OpInfo), each with several draws of its data.

python tests/host/opinfo.py             all operators, a summary and what differs
python tests/host/opinfo.py add matmul  some of them
"""

import argparse
import re
import sys
import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import graph_quant  # noqa: F401  (makes npu:0 available)
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_map

DTYPES = (
    *(torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64),
    *(torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool),
)
SAMPLES = 3
# A device that remembers anything of a call by its shapes shows it from the second call on.
DRAWS = 3

# Operators whose results are random or undefined: only shape and dtype can agree.
UNDEFINED_VALUES = re.compile(
    r"(nn\.functional\.)?(alpha_|feature_alpha_)?dropout[23]?d?|.*fractional_max_pool.*|.*_lowrank|.*multi_head_attention.*"
    r"|(new_)?empty(_.*)?|rand(n|int)?(_like)?|.*scaled_dot_product_attention|.*rrelu|normal(_in_place)?"
    r"|bernoulli|cauchy|exponential|geometric|log_normal|multinomial|uniform"
)


# Operators that the host composes eagerly as graphs do (graph_quant/reference/composed.py), or whose gradients rest on
# such: they agree with graphs to the bit, and with the CPU up to the rounding of a few steps.
ROUNDED_AS_IN_GRAPHS = re.compile(
    r"addmm|addmv|addbmm|baddbmm|addr|v?dot|mv|inner|(__r)?matmul(__)?|(linalg\.)?(cross|qr|cholesky(_ex)?|lu(_.*)?)"
    r"|logaddexp2?|(var|std)_mean|nn\.functional\.(interpolate|upsample_bilinear|silu|mish)|sinc|renorm|logit|xlogy"
    r"|special\.(xlog1py|entr|i1)|hypot|i0|fft\..*|i?stft|(linalg\.)?(svd(vals)?|eigvalsh|pinv|cond)"
    r"|(linalg\.)?(matrix_)?(norm|rank)|cholesky_(solve|inverse)|triangular_solve|var|std|segment_reduce"
    r"|nn\.functional\.(conv_transpose.*|kl_div|multi(label)?_margin_loss|nll_loss|cross_entropy|grid_sample|(group|layer)_norm)"
)
# Of the largest number in a result.
ROUNDING = {
    torch.float32: 2**-18,
    torch.complex64: 2**-18,
    torch.float64: 2**-46,
    torch.complex128: 2**-46,
    torch.float16: 2**-8,
    torch.bfloat16: 2**-5,
}
# Pixels are integers that the CPU computes with fixed points, in two turns: they differ by one in each.
PIXELS = re.compile(r"nn\.functional\.(interpolate|upsample_bilinear)")


@dataclass
class Outcome:
    """What became of one operator: how many of its calls agreed, and the first that did not."""

    name: str
    agreed: int = 0
    failure: str | None = None
    failures: list[str] = field(default_factory=list)


def seed_both(seed: int) -> None:
    """Seed the generators of the two devices; `torch.manual_seed` asks many more, and takes its time."""
    torch.npu.init()
    torch.default_generator.manual_seed(seed)
    torch.npu.default_generators[0].manual_seed(seed)


def on_npu(value: Any) -> Any:
    """Move the tensors of a sample to the device, with everything that a call can see of them."""

    def move(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            moved = item.detach().npu()
            return moved.requires_grad_(item.requires_grad)
        if isinstance(item, torch.device) or item == "cpu":
            return torch.device("npu", 0)
        return item

    return tree_map(move, value)


def on_cpu(value: Any) -> Any:
    """Bring results back for comparison."""
    return tree_map(lambda item: item.detach().cpu() if isinstance(item, torch.Tensor) else item, value)


def same(expected: Any, actual: Any, values: bool, op: str = "") -> None:
    """Raise unless two results agree: to the bit, or as ``op`` rounds, where values count, else in shape and dtype."""
    flat_expected, flat_actual = (torch.utils._pytree.tree_leaves(item) for item in (expected, actual))
    assert len(flat_expected) == len(flat_actual), "another number of results"
    for left, right in zip(flat_expected, flat_actual, strict=True):
        if not isinstance(left, torch.Tensor):
            assert not values or left == right or left != left, f"{right} is not {left}"
            continue
        assert (left.shape, left.dtype) == (right.shape, right.dtype), (
            f"{right.dtype}{list(right.shape)} is not {left.dtype}{list(left.shape)}"
        )
        if values:
            torch.testing.assert_close(right, left, rtol=0, atol=allowed(left, op) if op else 0, equal_nan=True)


def allowed(expected: torch.Tensor, op: str) -> float:
    """How far a result may be from the CPU's."""
    if expected.dtype == torch.uint8:
        return 2 if PIXELS.fullmatch(op) else 0
    bound = ROUNDING.get(expected.dtype, 0)
    return bound * expected.abs().nan_to_num(0, 0, 0).max().item() if bound and expected.numel() else 0


def samples(op: OpInfo, dtype: torch.dtype, seed: int) -> Iterator[SampleInput]:
    """Yield the first samples that PyTorch tests the operator with: the same shapes, other data, for each seed."""
    seed_both(seed)
    wants_gradient = dtype == torch.float32 and op.supports_autograd
    yield from islice(op.sample_inputs("cpu", dtype, requires_grad=wants_gradient, set_seed=False), SAMPLES)


def is_strided(sample: SampleInput) -> bool:
    """Tell whether a sample has plain tensors only."""
    leaves = torch.utils._pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return all(
        not isinstance(leaf, torch.Tensor) or (leaf.layout == torch.strided and not leaf.is_nested) for leaf in leaves
    )


def gradients(result: Any, inputs: list[torch.Tensor]) -> Any:
    """Return the gradients of everything differentiable in a result."""
    outputs = [
        leaf
        for leaf in torch.utils._pytree.tree_leaves(result)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    if not outputs or not inputs:
        return ()
    return torch.autograd.grad(outputs, inputs, [torch.ones_like(output) for output in outputs], allow_unused=True)


def leaves(sample: Any) -> list[torch.Tensor]:
    """Return the tensors of a sample that want a gradient."""
    return [
        leaf
        for leaf in torch.utils._pytree.tree_leaves(sample)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]


def compare(op: OpInfo, sample: SampleInput) -> bool:
    """Run one sample on both devices: False if the CPU cannot run it, an exception if the device answers otherwise."""
    values = not UNDEFINED_VALUES.fullmatch(op.name)
    rounded = op.name if ROUNDED_AS_IN_GRAPHS.fullmatch(op.name) else ""
    call = (sample.input, sample.args, sample.kwargs)
    moved = on_npu(call)
    try:
        seed_both(1)
        expected = op.op(call[0], *call[1], **call[2])
        expected_gradients = gradients(expected, leaves(call))
    except Exception:
        return False
    seed_both(1)
    actual = op.op(moved[0], *moved[1], **moved[2])
    same(on_cpu(expected), on_cpu(actual), values, rounded)
    same(on_cpu(expected_gradients), on_cpu(gradients(actual, leaves(moved))), values, rounded)
    return True


def check(op: OpInfo, once: Collection[torch.dtype] = (), again: Collection[torch.dtype] = DTYPES) -> Outcome:
    """Run an operator over its samples, for some dtypes with one draw of the data and for others with more."""
    name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
    outcome = Outcome(name)
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cpu") or dtype not in (*once, *again):
            continue
        try:
            draws = [list(samples(op, dtype, seed)) for seed in range(DRAWS if dtype in again else 1)]
            for sample in chain.from_iterable(zip(*draws, strict=True)):
                if is_strided(sample):
                    outcome.agreed += compare(op, sample)
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            outcome.failure = f"{dtype}: {type(error).__name__}: {lines[0][:200]}"
            return outcome
    return outcome


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="operators to check (default: all)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [op for op in op_db if not arguments.names or op.name in arguments.names]
    outcomes = []
    for position, op in enumerate(chosen):
        if sys.stderr.isatty():
            print(f"\r{position + 1}/{len(chosen)} {op.name:40.40}", end="", file=sys.stderr)
        outcomes.append(check(op))
    print(file=sys.stderr)
    count = Counter("differs" if o.failure else "agrees" if o.agreed else "not run" for o in outcomes)
    for outcome in outcomes:
        if outcome.failure:
            print(f"{outcome.name:50} {outcome.failure}")
    ran = count["agrees"] + count["differs"]
    print(
        f"{count['agrees']} of {ran} OpInfos agree with the CPU ({count['agrees'] / max(ran, 1):.1%}), "
        f"{sum(o.agreed for o in outcomes)} calls; {count['not run']} have no sample that runs here on the CPU"
    )
    return 0 if not count["differs"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
