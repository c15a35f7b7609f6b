"""Every call of the tables of extensions: eagerly, inferred, captured and in npugraph_ex, against statements."""

from typing import Any

import numpy as np
import pytest
import torch
from graph_quant.dispatcher import overload
from graph_quant.start import stand_ins

from extensions.cann_recipes import operators as recipes
from extensions.sgl_kernel_npu import operators as sglang
from extensions.vllm_ascend import (
    caches,
    chunked_delta_rule,
    convolution,
    delta_rule,
    experts,
    lora,
    matmul,
    norms,
    routing,
    sparse_attention,
    speculation,
)
from support.arrays import numbers
from support.extension_calls import Case, Wrong

EXTENSIONS = {
    "vllm_ascend.vllm_ascend_C": (
        norms,
        routing,
        experts,
        lora,
        delta_rule,
        convolution,
        matmul,
        sparse_attention,
        caches,
        speculation,
        chunked_delta_rule,
    ),
    "libsgl_kernel_npu.so": (sglang,),
    "custom_ops.custom_ops_lib": (recipes,),
}
VALID = [case for tables in EXTENSIONS.values() for table in tables for case in table.VALID]
WRONG = [case for tables in EXTENSIONS.values() for table in tables for case in table.WRONG]


@pytest.fixture(autouse=True, scope="module")
def _extensions() -> None:
    for extension in EXTENSIONS:
        assert stand_ins.load(extension) is not None


def compare(case: Case, computed: list[torch.Tensor], expected: Any) -> None:
    arrays = expected if isinstance(expected, (list, tuple)) else [expected]
    assert len(computed) == len(arrays)
    for one, other in zip(computed, arrays, strict=True):
        array, wanted = numbers(one.cpu()), numbers(other) if isinstance(other, torch.Tensor) else np.asarray(other)
        assert array.shape == wanted.shape
        if case.bound and array.dtype.kind == "f":
            np.testing.assert_allclose(array, wanted, rtol=0, atol=case.bound * np.abs(wanted).max(initial=0))
        else:
            np.testing.assert_array_equal(array, wanted)


def capture(case: Case) -> list[torch.Tensor]:
    """Capture the call, and replay it on arguments that the capture did not see."""
    args, kwargs = case.on("npu")
    fresh_args, fresh_kwargs = case.on("npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        results = case.run(args, kwargs)
    for tensor, fresh in zip(tensors(args, kwargs), tensors(fresh_args, fresh_kwargs), strict=True):
        tensor.copy_(fresh)
    graph.replay()
    return results


def tensors(*values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("case", VALID, ids=str)
def test_results_agree_with_the_statement(case: Case) -> None:
    cpu_args, cpu_kwargs = case.on("cpu")
    computed = case.run(*case.on("npu"))
    assert all(result.device.type == "npu" for result in computed)
    assert case.expected is not None
    compare(case, computed, case.expected(*cpu_args, **cpu_kwargs))
    for one, other in zip(capture(case), computed, strict=True):
        assert torch.equal(one, other)
    inferred = case.run(*case.on("meta"))
    for one, other in zip(inferred, computed, strict=True):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_wrong_calls_are_refused(case: Wrong) -> None:
    name = case.op.partition("::")[2]
    for device in ("npu", "meta"):
        valid = Case(case.op, "", case.args, case.kwargs)
        args, kwargs = valid.on(device)
        with pytest.raises(RuntimeError) as refusal:
            overload(case.op)(*args, **kwargs)
        assert str(refusal.value).startswith(f"{name}: {case.message}")


def test_every_record_has_calls() -> None:
    from graph_quant.meta import RECORDS

    tested = {case.op for case in VALID}
    records = {name for name in RECORDS.names() if stand_ins.origin(name) in EXTENSIONS}
    assert records - tested == {"_C_ascend::swap_blocks_batch"}  # by address: below


def test_swap_blocks_batch_copies_by_address() -> None:
    source, target = torch.arange(16, dtype=torch.int32).npu(), torch.zeros(16, dtype=torch.int32)
    addresses = torch.tensor([source.data_ptr() + 16, source.data_ptr()]), torch.tensor([target.data_ptr() + 32] * 2)
    torch.ops._C_ascend.swap_blocks_batch(addresses[0], addresses[1] - torch.tensor([0, 32]), torch.tensor([8, 12]), 1)
    assert target.tolist() == [0, 1, 2, 0, 0, 0, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0]


def is_honest(case: Case) -> bool:
    """Whether the schema says what a call writes and returns: PyTorch drops or refuses other calls in graphs."""
    args, kwargs = case.on("npu")
    result = overload(case.op)(*args, **kwargs)
    arguments = overload(case.op)._schema.arguments
    said = {argument.name for argument in arguments if argument.alias_info is not None and argument.alias_info.is_write}
    return set(case.writes) <= said and not any(result is tensor for tensor in tensors(args, kwargs))


# One graph for an extension: compiling takes longer than all its calls.
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_npugraph_ex_computes_the_same(extension: str) -> None:
    cases = list({case.op: case for table in EXTENSIONS[extension] for case in table.VALID}.values())
    # npugraph_ex copies inputs that are no parameters in the base format.
    cases = [case for case in cases if is_honest(case) and not any(hasattr(t, "stored_in") for t in tensors(case.args))]
    operators = [overload(case.op) for case in cases]

    def call_all(arguments: Any) -> Any:
        return [op(*args, **kwargs) for op, (args, kwargs) in zip(operators, arguments, strict=True)]

    torch._dynamo.reset()
    compiled = torch.compile(call_all, backend="npugraph_ex", fullgraph=True, dynamic=False)
    arguments = [case.on("npu") for case in cases]
    for case, passed, results in zip(cases, arguments, compiled(arguments), strict=True):
        computed = [*(tensors(results)), *case.written(*passed)]
        for one, other in zip(computed, case.run(*case.on("npu")), strict=True):
            assert torch.equal(one, other), case
