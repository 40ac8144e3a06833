"""Walls of the kernel round a candidate: Landlock and a seccomp filter."""
