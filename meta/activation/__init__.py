"""Rules of activations, losses and dropout."""
