"""Thousands of systems: search, distances, leave-one-out, a library, a cluster and memory."""
