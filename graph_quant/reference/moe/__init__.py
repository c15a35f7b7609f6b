"""Mixture of experts: gating, routing of tokens to experts, and the combination of their results."""
