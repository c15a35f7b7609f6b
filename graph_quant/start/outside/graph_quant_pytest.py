"""A pytest plugin for test suites of other projects: NPU tests run on machines without an NPU.

It is off by default: `graph_quant = true` in the ini file, or `-p graph_quant.pytest` on the command line.
"""

import pytest

_OPTION = "graph_quant"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option."""
    parser.addini(_OPTION, "make torch_npu ready before tests are imported (graph_quant)", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Prepare the process before the first conftest imports torch."""
    if early_config.getini(_OPTION):
        import graph_quant.pytest  # noqa: F401


def pytest_report_header() -> str | None:
    """Report the runtime of torch_npu."""
    import sys

    preload = sys.modules.get("graph_quant.start.preload")
    if preload is None:
        return None
    runtime = preload.chosen() or "not needed yet"
    return f"graph_quant: torch_npu is ready ({preload.SWITCH}={preload.switch()}, runtime: {runtime})"
