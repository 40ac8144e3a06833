"""Inputs, weights and answers as tensors: drawn, changed, transferred, compared."""
