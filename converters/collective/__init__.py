"""Lowerings of operators that communicate."""
