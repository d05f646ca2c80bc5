"""What the structure of an image file says of the work to decode it: a module for each format, asked by examine.py."""
