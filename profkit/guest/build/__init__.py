"""Import, build and construct an implementation."""
