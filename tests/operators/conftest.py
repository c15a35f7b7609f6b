"""`pytest tests/operators/<family>/<table>.py` runs the tests of the operators in that table.

A table holds calls and no tests. For the path of a table, pytest collects the shared tests with the parameters of its
operators, and `test_<table>.py` beside it. The tests have the same ids as in the whole suite.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from graph_quant.releases import cann

TESTS = Path(__file__).parents[1]
SHARED = (*sorted((TESTS / "operators").glob("test_*.py")), TESTS / "converters" / "test_golden.py")


@pytest.fixture(autouse=True, scope="module")
def _newest_rules() -> Iterator[None]:
    """Check calls against the rules of the newest CANN, whatever the installed torch_npu was released for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cann.VARIABLE, cann.NEWEST)
        yield


class OperatorTable(pytest.File):
    """A table of calls, as the collector of the tests of its operators."""

    def collect(self) -> Iterator[pytest.Module]:
        from support.all_calls import names_in  # it imports every table, which other tests need not wait for

        names = names_in(self.path)
        if not names:
            raise self.CollectError(f"{self.path.name} has no calls of operators: tables beside it import from it")
        for path in SHARED:
            yield SharedTests.from_parent(self, path=path, operators=names)
        own_tests = self.path.with_name(f"test_{self.path.name}")
        if own_tests.exists():
            yield pytest.Module.from_parent(self, path=own_tests)


class SharedTests(pytest.Module):
    """Tests that are parametrised by operators, calls or golden graphs: those of some operators."""

    def __init__(self, *, operators: set[str], **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.operators = operators

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        for item in super().collect():
            values = item.callspec.params.values() if hasattr(item, "callspec") else ()
            names = (getattr(value, "op", value) for value in values)
            if any(isinstance(name, str) and name in self.operators for name in names):
                yield item


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> OperatorTable | None:
    """Collect a table that is given by path; pytest does not come across it otherwise."""
    if module_path.parent.parent != TESTS / "operators" or module_path.name.startswith(("test_", "_")):
        return None
    return OperatorTable.from_parent(parent, path=module_path)
