"""Where people already are: notebooks, pytest, pull requests, clients of the Model Context Protocol."""
