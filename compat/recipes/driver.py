"""Runs a recipe's own runner from its checkout and keeps the logits of every step: `driver.py checkout settings out`.

For `graph-quant run`, alone or with --ranks. The recipe runs as it stands; what its worker returns is kept as well,
and eagerly also what it routes to which experts.
With RECIPE_FUSION=off TorchAir does not fuse operators by patterns, which gives other bits where a fused kernel rounds
less. With RECIPE_ROWS=on weights of float32 that are turned are laid out in rows, as inputs of a GE graph are.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch_npu  # loads recipes_extension, too
import yaml

# What sends tokens to experts: the tokens come first, and these say to which.
_ROUTING = {"npu_moe_init_routing_v2": "expert_idx", "npu_moe_distribute_dispatch_v2": "expert_ids"}
_MADE_UP = 0.1


Step = dict[str, Any]
Routing = list[tuple[torch.Tensor, torch.Tensor]]


def main(checkout: str, settings: str, out: str) -> None:
    """Run the recipe that ``settings``, its own YAML file, describe."""
    sys.path.insert(0, checkout)
    os.environ.setdefault("RES_PATH", str(Path(out).parent))
    os.environ["RECIPES"] = checkout
    import custom_ops  # noqa: F401  (the recipes' extension)

    if os.environ.get("RECIPE_FUSION") == "off":
        _without_fusion()
    described = yaml.safe_load(Path(settings).read_text())
    steps: list[Step] = []
    try:
        if "model_name" in described:
            _with_own_runner(Path(checkout) / "models" / described["model_name"], settings, steps)
        else:
            _with_executor(settings, described["model_config"]["exe_mode"] == "eager", steps)
    finally:
        rank = os.environ.get("RANK", "0")
        torch.save(steps, f"{out}.{rank}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _with_executor(settings: str, is_eager: bool, steps: list[Step]) -> None:
    from executor.core.model_worker import model_worker
    from executor.offline import infer

    if "RANK" not in os.environ:  # the runner asks for a group also where it is alone
        torch.distributed.init_process_group("hccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
    routed: Routing = []
    if is_eager:
        _keep_routing(routed)
    _make_up_larger_weights()
    inference = model_worker.ModelWorker.inference

    def keeping(self: Any, model_inputs: Any, is_prefill: bool, *args: Any, **kwargs: Any) -> Any:
        routed.clear()
        if os.environ.get("RECIPE_ROWS") == "on":
            _lay_in_rows(self.model)
        result = inference(self, model_inputs, is_prefill, *args, **kwargs)
        output = result[0]
        logits = output[0] if isinstance(output, tuple) else output
        about = model_inputs["forward_metadata"]
        if not about.is_warm_up:
            ends = _ends(about) if is_prefill else None
            tokens = model_inputs["input_ids"].cpu()
            steps.append({"tokens": tokens, "ends": ends, "logits": logits.cpu(), "routed": list(routed)})
        return result

    model_worker.ModelWorker.inference = keeping
    sys.argv = ["infer.py", "--yaml_file_path", settings]
    infer.main()


def _with_own_runner(folder: Path, settings: str, steps: list[Step]) -> None:
    """A recipe with a runner of its own, on prompts of one length."""
    from executor.model_runner import ModelRunner

    sys.path.insert(0, str(folder))
    importlib.import_module(next(folder.glob("runner_*.py")).stem)
    (runner,) = ModelRunner.__subclasses__()
    inference = runner.model_inference

    def keeping(self: Any, model_inputs: Any, *args: Any, warm_up: bool = False, **kwargs: Any) -> Any:
        result = inference(self, model_inputs, *args, warm_up=warm_up, **kwargs)
        if not warm_up:
            tokens = model_inputs["input_ids"].cpu()
            ends = [tokens.size(1) * count for count in range(1, tokens.size(0) + 1)]
            logits = result[0][:, -1].cpu()
            steps.append({"tokens": tokens.flatten(), "ends": ends, "logits": logits, "routed": []})
        return result

    runner.model_inference = keeping
    sys.argv = ["infer.py", "--yaml_file_path", settings]
    runpy.run_path(str(folder / "infer.py"), run_name="__main__")


def _ends(about: Any) -> list[int]:
    """Where each prompt ends among the tokens of a prefill."""
    if about.actual_seq_lengths_cu_list_q is not None:
        return list(about.actual_seq_lengths_cu_list_q)
    return [int(end) for end in about.actual_seq_lengths_cu_q]


def _keep_routing(routed: Routing) -> None:
    for name, experts in _ROUTING.items():
        called = getattr(torch_npu, name)

        def call(*args: Any, called: Any = called, experts: str = experts, **kwargs: Any) -> Any:
            x, chosen = args[0] if args else kwargs["x"], args[1] if len(args) > 1 else kwargs[experts]
            routed.append((x.cpu(), chosen.cpu()))
            return called(*args, **kwargs)

        setattr(torch_npu, name, call)


def _make_up_larger_weights() -> None:
    """What the runner makes up without a checkpoint is within 0.001 of 0: too little to tell results apart."""
    from executor.model_loader import dummy_loader

    made_up = dummy_loader.initialize_dummy_weights
    dummy_loader.initialize_dummy_weights = partial(made_up, low=-_MADE_UP, high=_MADE_UP)


def _lay_in_rows(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.dtype == torch.float32 and not parameter.is_contiguous():
            parameter.data = parameter.data.contiguous()


def _without_fusion() -> None:
    import npugraph_ex
    import torchair

    for module, holder in ((torchair, "experimental_config"), (npugraph_ex, "")):
        kind = module.configs.compiler_config.CompilerConfig
        made = kind.__init__

        def init(self: Any, *args: Any, made: Any = made, holder: str = holder, **kwargs: Any) -> None:
            made(self, *args, **kwargs)
            (getattr(self, holder) if holder else self).pattern_fusion_pass.value = False

        kind.__init__ = init


if __name__ == "__main__":
    main(*sys.argv[1:4])
