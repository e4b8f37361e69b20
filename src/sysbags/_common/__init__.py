"""What every package shares: types, checks, threads and progress, files, the cache on disk."""
