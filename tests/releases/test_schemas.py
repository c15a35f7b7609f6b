"""Every record binds to the schema of every supported release, by name."""

from __future__ import annotations

import pytest
import torch
import torch_npu
from graph_quant.dispatcher import is_defined, overload
from graph_quant.meta import RECORDS, Refusal
from graph_quant.releases.schemas import DECLARED, Binding, declared_schema, read_schemas, releases
from graph_quant.start import stand_ins

parse = torch._C.parse_schema


def test_declared_schemas_are_those_of_the_installed_release() -> None:
    """Independent of the extraction: PyTorch's own dispatcher states what the wheel registered."""
    release = torch_npu.__version__.partition("+")[0]
    if release not in releases() or read_schemas(release):
        pytest.skip(f"torch_npu {release} differs from the declared schemas")
    schemas = read_schemas(DECLARED)
    assert len(schemas) > 250
    assert {name: str(overload(name)._schema) for name in schemas} == schemas


def test_every_record_of_torch_npu_has_a_declared_schema() -> None:
    # Stand-ins for compiled extensions, which other tests load, define operators of their own.
    names = {name for name in RECORDS.names() if name.startswith("npu::")} - stand_ins.operators()
    assert names - read_schemas(DECLARED).keys() == set()


@pytest.mark.parametrize("release", releases())
def test_records_bind_to_the_schemas_of_a_release(release: str) -> None:
    for name, schema in read_schemas(release).items():
        if schema is None:
            continue
        declared = declared_schema(name)
        assert declared is not None
        installed = parse(schema)
        names = [argument.name for argument in installed.arguments]
        binding = Binding(RECORDS[name].title, declared, installed)
        values = binding.bind((), {name: f"value of {name}" for name in names if name in binding.arguments})
        assert len(values) == len(declared.arguments), name
        for argument, value in zip(declared.arguments, values, strict=True):
            renamed = name == "npu::npu_mhc_post_backward" and argument.name == "grad_y"
            if argument.name in names:
                assert value == f"value of {argument.name}", (name, argument.name)
            elif not renamed:
                assert value == argument.default_value, (name, argument.name)


def test_an_argument_missing_in_the_middle_shifts_nothing() -> None:
    declared = parse("npu::op(Tensor x, int k, *, Tensor? bias=None, Tensor? ids=None, int groups=1) -> Tensor")
    older = parse("npu::op(Tensor x, int k, *, Tensor? bias=None, int groups=1) -> Tensor")
    assert Binding("op", declared, older).bind(("x", 2), {"groups": 4}) == ("x", 2, None, None, 4)


def test_an_unknown_argument_must_stay_at_its_default() -> None:
    declared, newer = parse("npu::op(Tensor x) -> Tensor"), parse("npu::op(Tensor x, int mode=0) -> Tensor")
    binding = Binding("op", declared, newer)
    assert binding.bind(("x", 0), {}) == ("x",)
    with pytest.raises(Refusal, match=r"op: mode is not known .* must be left at its default 0, got 1"):
        binding.bind(("x",), {"mode": 1})


def test_a_required_argument_that_a_release_lacks_is_an_error() -> None:
    declared, older = parse("npu::op(Tensor x, Tensor y) -> Tensor"), parse("npu::op(Tensor x) -> Tensor")
    with pytest.raises(TypeError, match="op: the installed torch_npu lacks the argument y"):
        Binding("op", declared, older)


def test_registered_records_are_defined_in_the_installed_release() -> None:
    lacking = {name for name in read_schemas(DECLARED) if not is_defined(name)}
    release = torch_npu.__version__.partition("+")[0]
    if release in releases():
        assert lacking == {name for name, schema in read_schemas(release).items() if schema is None}
