"""Rules of eager calls are evaluated once per signature, and never where a plan depends on more."""

from dataclasses import dataclass

import pytest
import torch
import torch_npu
from graph_quant import chip, mistakes
from graph_quant.formats import NZ, keep_format
from graph_quant.meta.eager_plans import EagerPlans, signature_of
from graph_quant.meta.operator import Plan, Refusal, Result


@dataclass(frozen=True)
class _Held(Plan):
    value: object


def _evaluations(make, *calls):
    """Return how often `make` is called for calls in turn."""
    plans, count = EagerPlans(), 0

    def counted(values):
        nonlocal count
        count += 1
        return make(values)

    for values in calls:
        assert plans.plan(signature_of(values), values, counted) == make(values)
    return count


def _plan(values):
    return Plan((Result(tuple(values[0].shape), values[0].dtype),))


def test_calls_with_the_same_metadata_share_a_plan() -> None:
    calls = [(torch.rand(2, 3), 1, None, [4, 5], torch.int8, "rint") for _ in range(3)]
    assert _evaluations(_plan, *calls) == 1


@pytest.mark.parametrize(
    "other",
    [
        (torch.rand(3, 2), 1.0),
        (torch.rand(3, 2).t(), 1.0),
        (torch.rand(2, 3).half(), 1.0),
        (torch.rand(2, 3), 1),
        (torch.rand(2, 3), True),
        (torch.rand(2, 3), [1.0]),
        (torch.rand(2, 3), (1.0,)),
    ],
)
def test_calls_that_rules_can_distinguish_do_not(other) -> None:
    assert _evaluations(_plan, (torch.rand(2, 3), 1.0), other) == 2


def test_zeros_of_both_signs_are_two_signatures_and_nan_is_one() -> None:
    x = torch.rand(2)
    assert signature_of((x, 0.0)) != signature_of((x, -0.0))
    assert signature_of((x, float("nan"))) == signature_of((x, float("nan")))


def test_formats_and_chips_are_part_of_a_signature() -> None:
    x, blocks = torch.rand(16, 16), torch.rand(16, 16)
    keep_format(blocks, NZ)
    assert signature_of((x,)) != signature_of((blocks,))
    with chip.use(chip.A3):
        on_a3 = signature_of((x,))
    with chip.use(chip.ASCEND_950):
        assert signature_of((x,)) != on_a3


@pytest.mark.parametrize("value", [torch.rand(2, device="meta"), torch.rand(2).to_sparse(), object()])
def test_other_arguments_have_no_signature(value) -> None:
    assert signature_of((torch.rand(2), value)) is None


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.tolist(),
        lambda x: x.sum().item(),
        lambda x: x.storage_offset(),
        lambda x: x.data_ptr(),
        lambda x: x.untyped_storage().nbytes(),
        lambda x: x.requires_grad,
        lambda x: x.reshape(-1),
    ],
)
def test_plans_that_depend_on_more_than_metadata_are_not_kept(look) -> None:
    def make(values):
        look(values[0])
        return _plan(values)

    x = torch.rand(2, 3)
    # Once for each call, and once for the comparison's first.
    assert _evaluations(make, (x,), (x,), (x,)) == 3


@pytest.mark.parametrize("held", [torch.ones(1), [1], {}, (1, [2])])
def test_plans_that_callers_could_modify_are_not_kept(held) -> None:
    plans, x = EagerPlans(), torch.rand(2)
    made = [plans.plan(signature_of((x,)), (x,), lambda _: _Held((), held)) for _ in range(2)]
    assert made[0] is not made[1]


def test_refused_calls_are_refused_again() -> None:
    x = torch.rand(2, 3)
    for _ in range(3):
        with pytest.raises(Refusal, match=r"input must be torch\.float16"):
            torch_npu.npu_dynamic_quant(x)


def test_plans_of_calls_that_warn_are_not_kept() -> None:
    def make(values):
        mistakes.warn_once("test_eager_plans", "x", "it is a test")
        return _plan(values)

    with pytest.warns(mistakes.LikelyMistakeWarning):
        assert _evaluations(make, (torch.rand(2),), (torch.rand(2),)) == 2


def test_a_tensor_in_another_format_is_another_call() -> None:
    """The CPU alias of a tensor is cached, in its format alone."""
    rows, weight = torch.ones(1, 16, dtype=torch.int8).npu(), torch.ones(16, 32, dtype=torch.int8).npu()
    scale = torch.ones(32, dtype=torch.bfloat16).npu()
    for acl_format in (2, 29, 2, 29):
        matrix = torch_npu.npu_format_cast(weight, acl_format)
        result = torch_npu.npu_quant_matmul(rows, matrix, scale, output_dtype=torch.bfloat16)
        assert result.cpu().eq(16).all()


def test_arguments_with_one_memory_are_returned_as_themselves() -> None:
    """An operator that returns its argument returns the tensor that was passed."""
    x = torch.ones(2, 16, dtype=torch.float16).npu()
    other = x.view(2, 16)
    returned = torch_npu.npu_add_rms_norm(x, other, torch.ones(16, dtype=torch.float16).npu())
    assert returned[0].data_ptr() != x.data_ptr()
    assert returned[2].cpu().eq(2).all()
