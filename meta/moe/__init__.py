"""Mixtures of experts: which experts a token goes to, and its way to them and back."""
