"""Importing graph_quant is cheap, and public names are loaded on first access."""

import graph_quant
import pytest


def test_import_loads_neither_torch_nor_subpackages(run_python) -> None:
    names = ("torch", "typing", "graph_quant.nn")
    code = f"import graph_quant, sys; print([name for name in {names} if name in sys.modules])"
    assert run_python(code).stdout == "[]\n"


@pytest.mark.parametrize("name", graph_quant.__all__)
def test_public_names_resolve(name) -> None:
    assert getattr(graph_quant, name) is not None
    assert name in dir(graph_quant)


def test_verify_is_a_function_and_unknown_names_are_refused() -> None:
    assert callable(graph_quant.verify)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        graph_quant.nothing  # noqa: B018
