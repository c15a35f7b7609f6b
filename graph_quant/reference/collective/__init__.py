"""Operators that communicate, alone or between their computations."""
