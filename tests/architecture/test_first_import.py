"""torch_npu loads whichever part of the package a program imports first."""

from __future__ import annotations

import subprocess
import sys


def test_records_can_be_imported_before_torch() -> None:
    code = "from graph_quant.meta import RECORDS, operator; import torch_npu; print(len(RECORDS) > 50)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["True"], done.stderr
