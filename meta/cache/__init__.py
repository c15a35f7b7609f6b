"""Rules of the operators on KV caches."""
