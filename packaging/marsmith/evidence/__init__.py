"""The files of MAR-INF that say what an archive is made of and how it answers: one module each."""
