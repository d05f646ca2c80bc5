"""Recipes that make the starter checkpoints in `models/`; nothing here is needed to pack or to serve one."""
