"""Texts of real devices become rules, arguments and fixes."""

import json
from pathlib import Path

import pytest
import torch
import torch_npu
from graph_quant.cli import main
from graph_quant.explain import explain
from graph_quant.explain.messages import MESSAGES
from graph_quant.meta.operator import RECORDS
from graph_quant.refusals import PARAM_INVALID, TILING_ERROR, Refusal

from support.tensors import f16

# Reports of vllm-ascend's users, shortened, and what each is about.
REPORTS = {
    "when weight's dtype is [int4], weight's format is [FRACTAL_NZ], antiquantGroupSize should be 128 or 64, but "
    "actual antiquantGroupSize is [32].": ("npu_weight_quant_batchmatmul", "antiquant_group_size"),
    "EZ1001: Not supported mat2 n = 1 or k = 1 when format is FRACTAL_NZ, mat2: [1024, 1]": ("aten.mm", "mat2"),
    "When weight(BFLOAT16) format is FRACTAL_NZ, weight'shape(k[100], n[64]) should be divisible by the following "
    "shape": ("npu_grouped_matmul", "weight"),
    "In op [GMM], when A8W8, the format of [weight] is not supported, got [ND].": (
        "npu_grouped_matmul_swiglu_quant",
        "weight",
    ),
    "when input is BNSD layout and  B * N is large or D is not aligned, please do not use": ("npu_rotary_mul", "input"),
    "The stream resources are insufficient, error code 207008": ("torch.npu.graph", "captured graphs"),
    "operation not permitted when stream is capturing": ("torch.npu.graph", "the captured function"),
}


@pytest.mark.parametrize("text", REPORTS)
def test_reports_name_operator_argument_and_fix(text: str) -> None:
    first = explain(text)[0]
    assert (first.subject, first.argument) == REPORTS[text]
    assert first.fix


@pytest.mark.parametrize(
    "code", ["161002", "561002", "EZ1001", "107027", "107030", "207005", "207008", "507903", "507035", "561003"]
)
def test_codes_have_a_meaning_and_a_fix(code: str) -> None:
    (explanation,) = explain(f"[ERROR] call failed, error code is {code}[Error]: x")
    assert explanation.subject.startswith(code)
    assert explanation.rule
    assert explanation.fix


def test_operators_and_arguments_are_found_under_the_names_of_aclnn() -> None:
    *_, last = explain("aclnnWeightQuantBatchMatmulV2GetWorkspaceSize failed: antiquantScaleOptional, got 3 dimensions")
    assert (last.subject, last.argument) == ("npu_weight_quant_batchmatmul", "antiquant_scale")
    assert "antiquant_scale is (1,)" in last.rule


def test_messages_are_about_operators_with_records() -> None:
    titles = {name.partition("::")[2].partition(".")[0] for name in RECORDS}
    for message in MESSAGES:
        if not message.operator.startswith("npu_"):
            continue
        assert message.operator in titles
        record = RECORDS[f"npu::{message.operator}"]
        assert message.argument in (*record.arguments, "input"), message


def test_numbers_that_are_no_codes_are_left_alone() -> None:
    assert explain("shape [161, 102400], 2026-11-18, 1610020, pid 123456") == []


def test_refusals_carry_the_code_of_the_device() -> None:
    with pytest.raises(Refusal) as refusal:
        torch_npu.npu_rotary_mul(f16(2, 64, 3, 128).npu(), *[f16(1, 1, 3, 128).npu()] * 2)
    assert refusal.value.code == TILING_ERROR
    with pytest.raises(Refusal) as refusal:
        torch_npu.npu_rotary_mul(torch.zeros(3).npu(), *[f16(1, 1, 3, 128).npu()] * 2)
    assert refusal.value.code == PARAM_INVALID
    assert explain(str(refusal.value))[0].subject == "npu_rotary_mul"


def test_command_reads_texts_files_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "plog.log"
    log.write_text("[ERROR] error code is 507903\n")
    assert main(["explain", str(log)]) == 0
    assert capsys.readouterr().out.startswith("507903 ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED: ")
    assert main(["explain", "--json", "561002"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["subject"] == "561002 ACLNN_ERR_INNER_TILING_ERROR"
    assert main(["explain", "nothing", "known"]) == 1
    assert capsys.readouterr().out == "nothing in this text is known\n"
