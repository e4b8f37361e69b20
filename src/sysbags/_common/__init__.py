"""What every package shares: the version, types, checks, threads and progress, files, the cache on disk."""

__version__ = "0.1.0"
