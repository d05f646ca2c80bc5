"""The recipe, the checkpoint that it names, and what an archive of them will hold."""
