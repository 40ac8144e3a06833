"""Inputs, weights and answers as tensors: drawn, mixed, handed over, compared."""
