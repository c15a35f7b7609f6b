"""A command loads what it needs of the package, and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DUMP = Path(__file__).parents[1] / "dumps" / "data" / "upstream_group_quant_int4.txt"
MOST = 113  # inference by kernels, and for lint also limits and baselines


@pytest.mark.parametrize("command", ["inspect", "lint"])
def test_reading_a_small_dump_loads_few_modules(command: str) -> None:
    code = (
        "import sys; from graph_quant.cli import main; "
        f"main([{command!r}, {str(DUMP)!r}]); "
        "loaded = [name for name in sys.modules if name.split('.')[0] == 'graph_quant']; "
        "print(len(loaded), 'torch_npu' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, with_device = done.stdout.splitlines()[-1].split()
    assert int(count) <= MOST
    assert with_device == "False", "a dump needs no device"
