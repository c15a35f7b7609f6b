"""Runs the package with the supported releases of torch_npu, each in an environment of its own."""
