"""Kernels by name and source: libraries, authorship, precision, hot source lines."""
