"""Rules of general tensor operators."""
