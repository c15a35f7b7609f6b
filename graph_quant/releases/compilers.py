"""TorchAir's compilers: npugraph_ex, which older releases lack, and steps that they do not have as functions."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any


def compilers() -> list[ModuleType]:
    """The modules that compile Dynamo's graphs: TorchAir's, and npugraph_ex's where the release has it."""
    names = [name for name in ("torchair", "npugraph_ex") if importlib.util.find_spec(f"torch_npu.dynamo.{name}")]
    for name in names:
        # Until an attribute of it is read, a package is a stand-in, which would import its modules a second time.
        getattr(importlib.import_module(name), "get_npu_backend")  # noqa: B009
    return [importlib.import_module(f"{name}.npu_fx_compiler") for name in names]


def complete_compiler(compiler: dict[str, Any]) -> None:
    """Let TorchAir's compiler have the steps that are functions in newer releases, where they can be replaced.

    Args:
        compiler: The namespace of ``torchair.npu_fx_compiler``, from which ``torchair`` imports after this.
    """
    if "_get_merged_decompositions" not in compiler:
        compiler["_get_merged_decompositions"] = _custom_decompositions
        compiler["get_npu_backend"] = _merging(compiler["get_npu_backend"], compiler)
    if "_compile_graph_with_aot" not in compiler:
        compiler["_compile_graph_with_aot"], compiler["_npu_backend"] = _in_two_steps(compiler)


def _custom_decompositions(compiler_config: Any, custom_decompositions: Any = None) -> dict[Any, Any]:  # noqa: ARG001
    """The decompositions that ``get_npu_backend`` adds to its own."""
    return dict(custom_decompositions or {})


def _merging(create: Callable[..., Any], compiler: dict[str, Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def get_npu_backend(*, compiler_config: Any = None, custom_decompositions: Any = None) -> Any:
        config = compiler["CompilerConfig"]() if compiler_config is None else compiler_config
        table = compiler["_get_merged_decompositions"](config, custom_decompositions)
        return create(compiler_config=config, custom_decompositions=table)

    return get_npu_backend


def _in_two_steps(compiler: dict[str, Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The function that compiles a graph with a configuration, and the backend that calls it with a call's options."""
    backend = compiler["_npu_backend"]

    def compile_graph(gm: Any, _compiler: Any, inputs: Any, config: Any = None, table: Any = None, **_: Any) -> Any:
        return backend(gm, inputs, config, table or {})

    @functools.wraps(backend)
    def with_options(
        gm: Any, example_inputs: Any, compiler_config: Any = None, decompositions: Any = None, **options: Any
    ) -> Any:
        config = compiler["CompilerConfig"]() if compiler_config is None else compiler_config
        compiler["_process_kwargs_options"](config, options)
        compile_with = compiler["_compile_graph_with_aot"]
        return compile_with(gm, compiler["get_compiler"](config), example_inputs, config, decompositions)

    return compile_graph, with_options


def stand_in_node(graph: Any, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A GE node with the tensors and the results of an operator that has no converter, named after it."""
    if hasattr(graph, "_create_mock_node_for_op"):
        return graph._create_mock_node_for_op(target, args, kwargs)
    # Before torch_npu 2.9.0.post1 nothing makes one.
    create: Any = importlib.import_module("torchair._ge_concrete_graph.compat_ir").ge_op
    tensor: Any = importlib.import_module("torchair.ge._ge_graph").Tensor
    arguments = getattr(getattr(target, "_schema", None), "arguments", ())
    values_by_name = {**dict(zip((argument.name for argument in arguments), args, strict=False)), **kwargs}
    inputs: dict[str, Any] = {}
    for argument in arguments:
        if "Tensor" in str(argument.type):
            value = values_by_name.get(argument.name)
            values = value if isinstance(value, (list, tuple)) else [value]
            inputs[argument.name] = value if all(isinstance(one, tensor) for one in values) else None
    results = getattr(getattr(target, "_schema", None), "returns", ())
    outputs = [result.name or f"output_{index}" for index, result in enumerate(results)]
    return create(op_type=str(target), inputs=inputs, outputs=outputs)
