"""Mixture of experts: routing of tokens to experts and back."""
