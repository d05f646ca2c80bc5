"""Serve an archive's other wrappings where they are at home: on Amazon SageMaker."""
