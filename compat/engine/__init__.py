"""vLLM's engine with vllm-ascend, on tiny models with random weights."""
