"""Kernels by name and source: whose they are, in which precision they compute, which lines they wait for."""
