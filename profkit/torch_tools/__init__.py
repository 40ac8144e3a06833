"""Tools that need torch: tracing a program, conditions, ceilings, builds ahead."""
