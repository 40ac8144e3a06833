"""Bridges to notebooks, pytest, pull requests and the Model Context Protocol."""
