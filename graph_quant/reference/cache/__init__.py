"""KV caches: writes, reads and fused kernels that fill them."""
