"""Side-by-side measurements: ratios of one run on one machine. Nothing here is a test."""
