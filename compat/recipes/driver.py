"""Runs a recipe's own runner from its checkout and keeps the logits of every step: `driver.py checkout settings out`.

For `graph-quant run`, alone or with --ranks. The recipe runs as it stands; what its worker returns is kept as well.
With RECIPE_FUSION=off TorchAir does not fuse operators by patterns, which gives other bits where a fused kernel rounds
less.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch_npu  # noqa: F401  (loads recipes_extension)


def main(checkout: str, settings: str, out: str) -> None:
    """Run the recipe that ``settings``, its own YAML file, describe."""
    sys.path.insert(0, checkout)
    os.environ.setdefault("RES_PATH", str(Path(out).parent))
    os.environ["RECIPES"] = checkout
    import custom_ops  # noqa: F401  (the recipes' extension)
    from executor.core.model_worker import model_worker
    from executor.offline import infer

    if "RANK" not in os.environ:  # the runner asks for a group also where it is alone
        torch.distributed.init_process_group("hccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
    if os.environ.get("RECIPE_FUSION") == "off":
        _without_fusion()
    kept: list[dict[str, Any]] = []
    inference = model_worker.ModelWorker.inference

    def keeping(self: Any, model_inputs: Any, is_prefill: bool, *args: Any, **kwargs: Any) -> Any:
        result = inference(self, model_inputs, is_prefill, *args, **kwargs)
        output = result[0]
        logits = output[0] if isinstance(output, tuple) else output
        about = model_inputs["forward_metadata"]
        if not about.is_warm_up:
            ends = _ends(about) if is_prefill else None
            tokens = model_inputs["input_ids"].cpu()
            kept.append({"prefill": is_prefill, "tokens": tokens, "ends": ends, "logits": logits.cpu()})
        return result

    model_worker.ModelWorker.inference = keeping
    sys.argv = ["infer.py", "--yaml_file_path", settings]
    try:
        infer.main()
    finally:
        rank = os.environ.get("RANK", "0")
        torch.save(kept, f"{out}.{rank}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _ends(about: Any) -> list[int]:
    """Where each prompt ends among the tokens of a prefill."""
    if about.actual_seq_lengths_cu_list_q is not None:
        return list(about.actual_seq_lengths_cu_list_q)
    return [int(end) for end in about.actual_seq_lengths_cu_q]


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
