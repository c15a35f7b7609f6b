"""Gates that TorchAir has no function for."""
