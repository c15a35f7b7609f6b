"""What the attention operators compute."""
