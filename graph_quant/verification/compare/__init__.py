"""How far two results are apart."""
