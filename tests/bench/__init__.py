"""Measurements at scale, by hand and for the benchmark."""
