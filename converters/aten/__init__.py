"""ATen operators that quantised models need and TorchAir cannot lower."""
