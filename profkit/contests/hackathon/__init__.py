"""Evaluation tables of the TensorRT and Paddle hackathons, and their arithmetic."""
