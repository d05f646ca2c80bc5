"""What Marsmith is measured against, each as its own documentation does it."""
