"""The archive, byte for byte: write, read, verify and sign it. No torch."""
