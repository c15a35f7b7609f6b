"""The host NPU: what stands in for CANN on a machine that has none."""
