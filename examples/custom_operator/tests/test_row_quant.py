"""Run every call of the table: eagerly, without data, in graphs, and against a statement of the rule in NumPy."""

import custom_operator
import graph_quant
import numpy as np
import pytest
import torch
from calls import VALID, WRONG


def to(device, args):
    """Move the tensors of a call to a device."""
    return tuple(arg.to(device) for arg in args)


def expected(x, scale, bound=127):
    """State the rule once more, independently of torch."""
    quotient = x.float().numpy() / scale.numpy()[:, None]
    return np.clip(np.rint(quotient), -bound, bound).astype(np.int8)


@pytest.mark.parametrize("call", VALID)
def test_results_are_what_the_rule_says(call):
    args, options = VALID[call]
    result = custom_operator.row_quant(*to("npu", args), **options)
    np.testing.assert_array_equal(result.cpu().numpy(), expected(*args, **options))


@pytest.mark.parametrize("call", VALID)
def test_opcheck(call):
    args, options = VALID[call]
    torch.library.opcheck(torch.ops.custom_operator.row_quant, args, options)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("call", ["float16", "bound of 7"])
def test_graph_and_eager_agree(call, dynamic):
    args, options = VALID[call]
    torch._dynamo.reset()
    args = to("npu", args)
    report = graph_quant.verify(custom_operator.row_quant, *args, kwargs=options, dynamic=dynamic, fullgraph=True)
    report.check()  # raises, and names the first node that differs


@pytest.mark.parametrize("device", ["npu", "meta"])
@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls_are_refused(call, device):
    args, options, message = WRONG[call]
    with pytest.raises(RuntimeError) as refusal:
        custom_operator.row_quant(*to(device, args), **options)
    assert str(refusal.value) == message


def test_the_graph_is_one_node():
    args, _ = VALID["float16"]
    planned = graph_quant.plan(custom_operator.row_quant, *to("npu", args))
    assert planned.ok  # everything lowers, without a graph break
    assert "RowQuant" in str(planned)
