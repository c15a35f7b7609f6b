"""Writing into caches and reading from them."""
