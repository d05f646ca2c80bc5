"""`marsmith tune`: which precision, workers and batches serve a recipe best on this machine, by measuring them."""
