"""One recorder per tool: ncu, timelines, compute-sanitizer."""
