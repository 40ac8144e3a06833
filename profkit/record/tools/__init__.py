"""One recorder a tool: ncu, timelines, compute-sanitizer, other conditions."""
