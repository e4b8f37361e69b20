"""Pages over HTTP, by the standard library alone."""
