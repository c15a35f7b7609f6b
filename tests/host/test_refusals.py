"""Functions that only a real CANN has fail with their name: in Python where possible, never silently."""

import ctypes

import pytest
import torch
import torch_npu
from graph_quant.host.library import DIRECTORY, RUNTIME


def test_npu_operator_without_reference_is_refused_by_name() -> None:
    boxes = torch.ones(2, 4, device="npu")
    with pytest.raises(NotImplementedError, match="npu::npu_iou cannot run on the host NPU"):
        torch_npu.npu_iou(boxes, boxes)


def test_only_host_side_npu_operators_are_left_to_torch_npu() -> None:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    names = [name for name in registered if name.startswith("npu::")]
    assert len(names) > 400
    native = {name for name in names if "\nPrivateUse1: registered at ../torch_npu" in torch._C._dispatch_dump(name)}
    assert native <= {
        "npu::copy_memory_",
        "npu::empty_with_format",
        "npu::empty_with_format.names",
        "npu::get_npu_format",
        "npu::get_storage_size",
        "npu::npu_change_data_ptr",
        "npu::unsafe_empty_with_format",
    }


def test_unimplemented_c_function_fails_with_its_name() -> None:
    runtime = ctypes.CDLL(f"{DIRECTORY}/{RUNTIME}")
    assert runtime.aclrtMapMem() != 0
    runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
    assert runtime.aclGetRecentErrMsg().startswith(b"aclrtMapMem needs an NPU and CANN")
    assert runtime.aclGetRecentErrMsg() == b"", "a message is given once"


def test_a_call_that_does_nothing_raises() -> None:
    """With the code of a feature that the driver lacks, torch_npu would return 0."""
    with pytest.raises(RuntimeError, match="aclrtGetDeviceUtilizationRate needs an NPU and CANN"):
        torch.npu.utilization()


def test_expandable_segments_fall_back(run_python) -> None:
    code = "import graph_quant, torch, torch_npu; print(torch.ones(3).npu().sum().item())"
    done = run_python(code, PYTORCH_NPU_ALLOC_CONF="expandable_segments:True")
    assert done.stdout.splitlines()[-1] == "3.0", done.stderr


def test_cpp_call_to_cann_raises_python_exception(run_python) -> None:
    code = """
import graph_quant, torch, torchair
from torchair.core._backend import _torchair
graph = _torchair.TorchNpuGraphBase("g")
try:
    graph.load(b"", {}, [], [], 0)
except RuntimeError as error:
    print("python saw:", error)
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert "python saw:" in done.stdout
    assert "needs an NPU and CANN" in done.stdout


def test_out_of_memory_is_torchs_error() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        torch.empty(1 << 45, device="npu")
    assert torch.ones(3, device="npu").sum().item() == 3, "the device goes on"
