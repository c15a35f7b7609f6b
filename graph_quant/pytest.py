"""`pytest -p graph_quant.pytest` makes torch_npu and `npu-smi` ready before any test is imported."""

from graph_quant_pytest import pytest_report_header

from .start import tools

__all__ = ["pytest_report_header"]

tools.add_to_path()
