"""The cases that operators' authors run their goldens on: rows of `tests/st/**/ttk_kernel_*.csv`, for Ascend 950.

A row has the shapes, dtypes and ranges of inputs, and the attributes of a node; infinities and NaN that some ranges add
are left out. Dtypes that NumPy does not have are those of ml_dtypes and en_dtypes.
"""

from __future__ import annotations

import ast
import csv
import importlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graph_quant.ge import stored_dtype
from torch import Tensor

# Larger cases take minutes.
LARGEST = 4_000_000
_PACKAGES = {
    "bfloat16": "ml_dtypes",
    "float8_e4m3fn": "ml_dtypes",
    "float8_e5m2": "ml_dtypes",
    "float8_e8m0": "en_dtypes",
    "hifloat8": "en_dtypes",
    "float4_e2m1": "en_dtypes",
    "float4_e1m2": "en_dtypes",
    "int4": "ml_dtypes",
}
_FINITE = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "hifloat8": 32768.0, "float4_e2m1": 6.0, "float4_e1m2": 1.75}
_MIDDLE_EXPONENTS = (120, 135)


@dataclass(frozen=True)
class AuthorsCase:
    """One row: what a golden and a kernel are called with."""

    name: str
    shapes: tuple[Any, ...]
    dtypes: tuple[str, ...]
    ranges: tuple[Any, ...]
    formats: tuple[str, ...]
    attributes: dict[str, Any]
    output_dtypes: tuple[str, ...]
    output_shapes: tuple[Any, ...]

    def context(self) -> dict[str, Any]:
        """What a golden gets beside inputs and attributes."""
        return {
            "input_dtypes": self.dtypes,
            "output_dtypes": self.output_dtypes,
            "input_ori_shapes": self.shapes,
            "output_ori_shapes": self.output_shapes,
            "output_shapes": self.output_shapes,
            "input_formats": self.formats,
            "input_ranges": self.ranges,
            "short_soc_version": "Ascend950",
            "full_soc_version": "Ascend950",
            "testcase_name": self.name,
        }


def read_cases(golden: Path, title: str) -> Iterator[AuthorsCase]:
    """Yield the cases beside a golden for the op type that CSV files call ``title``."""
    for path in sorted(golden.parents[1].glob("st/**/ttk_kernel_*.csv")):
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file):
                if row["op_name"] == title:
                    case = _case(row)
                    if _is_small(case):
                        yield case


def _is_small(case: AuthorsCase) -> bool:
    """Whether a case takes tensors alone, no lists of them, that are small enough."""
    sizes = [size for shape in case.shapes if shape is not None for size in shape]
    if not all(isinstance(size, int) for size in sizes):
        return False
    return sum(math.prod(shape) for shape in case.shapes if shape is not None) <= LARGEST


def _case(row: dict[str, str]) -> AuthorsCase:
    shapes = _listed(row["input_shapes"])
    return AuthorsCase(
        row["testcase_name"],
        shapes,
        tuple(_listed(row["input_dtypes"])),
        _listed(row.get("input_data_ranges") or "((-1, 1),)"),
        tuple(_listed(row.get("input_formats") or "()")),
        ast.literal_eval(row["attributes"] or "{}"),
        tuple(_listed(row["output_dtypes"])),
        _listed(row["output_shapes"]),
    )


def _listed(text: str) -> tuple[Any, ...]:
    # A bound of NaN is None, one that is infinite a number that overflows.
    value = ast.literal_eval(re.sub(r"\binf\b", "1e999", re.sub(r"\bnan\b", "None", text)))
    return value if isinstance(value, tuple) else (value,)


def sample(case: AuthorsCase, seed: int = 1) -> list[Any]:
    """Uniform samples of the ranges of a case; None for absent inputs."""
    generator = np.random.default_rng(seed)
    arrays = []
    for index, (shape, dtype) in enumerate(zip(case.shapes, case.dtypes, strict=True)):
        bounds = case.ranges[min(index, len(case.ranges) - 1)] or (-1, 1)
        arrays.append(None if shape is None else _sample_array(generator, shape, dtype, bounds))
    return arrays


def _sample_array(generator: np.random.Generator, shape: Sequence[int], name: str, bounds: Sequence[float]) -> Any:
    if name == "float8_e8m0":
        return generator.integers(*_MIDDLE_EXPONENTS, shape).astype(np.uint8).view(numpy_dtype(name))
    if name == "uint64":  # a packed scale: the upper bits of a float32
        scales = generator.uniform(*bounds, shape).astype(np.float32).view(np.uint32)
        return (scales & np.uint32(0xFFFFE000)).astype(np.uint64)
    low, high = (math.nan if bound is None else float(bound) for bound in bounds[:2])
    if not (math.isfinite(low) and math.isfinite(high)):
        return np.full(shape, low).astype(numpy_dtype(name))
    finite = _FINITE.get(name, math.inf)
    low, high = max(low, -finite), min(high, finite)
    if name.startswith(("int", "uint")):
        return generator.integers(int(low), int(high) + 1, shape).astype(numpy_dtype(name))
    # Halves, as the difference of the bounds may be infinite.
    return (2 * generator.uniform(low / 2, high / 2, shape)).astype(numpy_dtype(name))


def numpy_dtype(name: str) -> Any:
    """The NumPy dtype of a name; ModuleNotFoundError without its package."""
    package = _PACKAGES.get(name)
    return np.dtype(getattr(importlib.import_module(package), name) if package else name)


def to_tensor(array: Any) -> Tensor:
    """An array as the host carries its dtype."""
    name = array.dtype.name
    if name not in _PACKAGES:
        return torch.from_numpy(np.ascontiguousarray(array))
    if name == "int4":
        return torch.from_numpy(array.astype(np.int8))
    stored = stored_dtype(name) if name != "bfloat16" else torch.bfloat16
    width = np.int16 if name == "bfloat16" else np.uint8
    return torch.from_numpy(np.ascontiguousarray(array).view(width).copy()).view(stored)
