"""What was compared and what came of it, for people and programs."""
