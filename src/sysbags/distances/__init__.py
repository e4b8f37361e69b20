"""Distances between systems, all of them from one CrossGram."""
