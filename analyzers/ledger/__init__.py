"""A program's operations: what each takes, needs at least, and can win."""
