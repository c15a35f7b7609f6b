"""Importing torch_npu registers the operators' names; a record is imported when its operator is first called."""

from __future__ import annotations

import json
import subprocess
import sys

import torch
import torchair  # noqa: F401  (its import brings the converters in)
from graph_quant.converters.lowering import LOWERINGS
from graph_quant.meta import NODES, RECORDS
from graph_quant.start import stand_ins

# Modules that may be imported at once.
MAX_IMPORTED = 12
NAMES = """
import json, sys
import graph_quant, torch_npu
loaded = [name for name in sys.modules if name.startswith(("graph_quant.meta.", "graph_quant.reference."))]
from graph_quant.meta import NODES, RECORDS
import torchair
from graph_quant.converters.lowering import LOWERINGS
lowering = [name for name in sys.modules if name.startswith("graph_quant.converters.")]
print(json.dumps([loaded, lowering, *(sorted(table.names()) for table in (RECORDS, NODES, LOWERINGS))]))
"""


def test_names_are_known_before_modules_are_imported() -> None:
    done = subprocess.run([sys.executable, "-c", NAMES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded, lowering, *names = json.loads(done.stdout.splitlines()[-1])
    families = [name for name in loaded if name.count(".") > 2]
    assert len(families) <= MAX_IMPORTED, families
    own = [name for name in lowering if name.count(".") > 2 and not name.startswith("graph_quant.converters.aten.")]
    assert len(own) <= MAX_IMPORTED, own
    # Importing everything adds no name.
    for known, table in zip(names, (RECORDS, NODES, LOWERINGS), strict=True):
        ours = {name for name in table if name.startswith(("npu::", "atb::")) and name != "npu::npu_nothing"}
        assert set(known) == ours - stand_ins.operators()


def test_modules_have_no_tensors_of_their_own() -> None:
    """A module that is imported inside a trace would create fake tensors."""
    assert len(RECORDS) + len(LOWERINGS) > 50
    packages = ("graph_quant.meta.", "graph_quant.reference.", "graph_quant.converters.")
    tensors = [
        f"{name}.{attribute}"
        for name, module in list(sys.modules.items())
        if name.startswith(packages)
        for attribute, value in vars(module).items()
        if isinstance(value, torch.Tensor)
    ]
    assert tensors == []


def test_record_is_loaded_by_first_call_under_fake_mode() -> None:
    code = (
        "import graph_quant, torch, torch_npu, sys\n"
        "from torch._subclasses.fake_tensor import FakeTensorMode\n"
        "with FakeTensorMode():\n"
        "    y, scale = torch_npu.npu_dynamic_quant(torch.empty(4, 64, dtype=torch.float16, device='npu'))\n"
        "print(y.dtype, tuple(scale.shape), 'graph_quant.meta.quant.group_quant' in sys.modules)\n"
        "print(torch_npu.npu_dynamic_quant(torch.ones(1, 2, dtype=torch.float16))[0].tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["torch.int8 (4,) False", "[[127, 127]]"], done.stderr
