"""The Python module ``acl``: its calls have the arguments and results that CANN documents."""

import ctypes
from importlib.machinery import PathFinder
from pathlib import Path

import acl
import numpy as np
import pytest
import torch
from acl.rt import memcpy

TO_DEVICE, TO_HOST, WITHIN = 1, 2, 3


def test_memory_is_that_of_torch() -> None:
    x = torch.arange(6.0, device="npu")
    host = np.zeros(6, np.float32)
    assert memcpy(acl.util.numpy_to_ptr(host), host.nbytes, x.data_ptr(), x.nbytes, TO_HOST) == 0
    assert host.tolist() == x.tolist()
    address, error = acl.rt.malloc(24, 0)
    assert error == 0
    assert acl.rt.memcpy(address, 24, x.data_ptr(), 24, WITHIN) == 0
    assert acl.util.ptr_to_numpy(address, (2, 3), 11).tolist() == x.view(2, 3).tolist()
    assert acl.rt.memset(address, 24, 0, 8) == 0
    assert acl.rt.memcpy(x.data_ptr(), 24, address, 24, WITHIN) == 0
    assert x.tolist() == [0, 0, 2, 3, 4, 5]
    assert acl.rt.free(address) == 0


def test_copies_that_do_not_fit_fail() -> None:
    source, target = b"0123456789", bytearray(4)
    buffer = (ctypes.c_char * 4).from_buffer(target)
    assert acl.rt.memcpy(ctypes.addressof(buffer), 4, acl.util.bytes_to_ptr(source), 10, TO_HOST) != 0
    assert "10 bytes do not fit into 4" in acl.get_recent_err_msg()
    assert acl.rt.malloc(0, 0) == (0, 100000)
    address, error = acl.rt.malloc(1 << 60, 0)
    assert (address, error) == (0, 207001)


def test_devices_and_memory() -> None:
    assert acl.init() == 0
    assert acl.rt.get_device_count() == (1, 0)
    assert acl.rt.set_device(0) == 0
    assert acl.rt.set_device(7) != 0
    assert acl.rt.get_device() == (0, 0)
    context, error = acl.rt.create_context(0)
    assert error == 0
    assert acl.rt.get_context() == (context, 0)
    assert acl.rt.set_context(context) == 0
    assert acl.rt.get_mem_info(1) == (*torch.npu.mem_get_info(), 0)
    assert acl.get_soc_name() == "Ascend910B3"


def test_streams_and_events() -> None:
    x = torch.zeros(4, dtype=torch.uint8, device="npu")
    stream, error = acl.rt.create_stream()
    assert error == 0
    (start, _), (end, _) = acl.rt.create_event(), acl.rt.create_event()
    assert acl.rt.record_event(start, stream) == 0
    assert acl.rt.memset_async(x.data_ptr(), 4, 7, 4, stream) == 0
    assert acl.rt.record_event(end, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.stream_wait_event(stream, end) == 0
    milliseconds, error = acl.rt.event_elapsed_time(start, end)
    assert error == 0
    assert milliseconds >= 0
    assert x.tolist() == [7] * 4
    assert [acl.rt.destroy_event(event) for event in (start, end)] == [0, 0]
    assert acl.rt.destroy_stream(stream) == 0


@pytest.mark.parametrize("name", ["mdl", "rt.launch_callback", "util.vector_to_ptr", "op"])
def test_the_rest_is_refused_by_name(name: str) -> None:
    module = acl
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    with pytest.raises(AttributeError, match=rf"acl\.{name} is not available on the host NPU"):
        getattr(module, last)


def test_another_module_of_that_name_comes_first(run_python, tmp_path: Path) -> None:
    (tmp_path / "acl.py").write_text("origin = 'CANN'")
    assert run_python("import graph_quant, acl; print(acl.origin)").stdout == "CANN\n"
    assert PathFinder.find_spec("acl") is None
    done = run_python("import graph_quant, acl", GRAPH_QUANT_HOST="off", PYTHONSAFEPATH="1")
    assert "No module named 'acl'" in done.stderr


def test_it_needs_no_torch(run_python) -> None:
    code = "import graph_quant, acl, sys; print(acl.rt.get_device_count(), 'torch' in sys.modules)"
    assert run_python(code).stdout == "(1, 0) False\n"
