"""`pytest -p graph_quant.pytest` makes torch_npu ready before any test is imported."""

from graph_quant_pytest import pytest_report_header

__all__ = ["pytest_report_header"]
