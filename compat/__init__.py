"""Runs tests, examples and models of other projects on the host NPU, and records what passes, fails, and why."""
