"""Import hooks: choose the runtime for torch_npu, and extend torch_npu and TorchAir when they are imported."""
