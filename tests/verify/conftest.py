"""Fixtures that inject faults."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from graph_quant.host.kernels import KERNELS
from graph_quant.start.preload import HOST, chosen

Replacement = Callable[..., Any]


@pytest.fixture
def break_kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Replacement], None]:
    """Replace the kernel of a GE type by a function of the kernel and its arguments."""
    if chosen() is not HOST:
        pytest.skip("host only: it breaks a kernel of the host")

    def replace(op_type: str, replacement: Replacement) -> None:
        kernel = KERNELS[op_type]

        def faulty(*args: Any, **attributes: Any) -> Any:
            return replacement(kernel.function, *args, **attributes)

        monkeypatch.setitem(KERNELS, op_type, dataclasses.replace(kernel, function=faulty))

    return replace
