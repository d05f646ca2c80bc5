"""Marsmith: everything that runs before and around a TorchServe archive."""
