"""What Dockerfile.arm64 and the checks agree on: who runs what in the image, and where it lies."""

from __future__ import annotations

PLATFORM = "linux/arm64"
# A user of the image's own, which no /etc/passwd needs to name: Kubernetes checks runAsNonRoot by the number.
USER = 10001
# Paths have no leading slash, as the members of layers.
VENV, STORE = "opt/marsmith", "opt/model-store"
PYTHON = f"/{VENV}/bin/python"
HEALTH = (PYTHON, "-P", "-m", "marsmith.container.health")
PORT = 8080
