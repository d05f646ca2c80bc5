"""What runs inside the container image: its entry point and its health check."""
