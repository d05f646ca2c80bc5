"""Ask a server that is not trusted, over HTTP: one request, many at a pace, and what its errors mean."""
