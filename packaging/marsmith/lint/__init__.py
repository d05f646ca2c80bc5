"""Lint: what would fail or surprise when TorchServe loads an archive, found before it does."""
