"""What happens at import: who serves torch_npu, and what is done when it and TorchAir arrive."""
