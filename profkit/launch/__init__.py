"""The parent's side: start the child, feed it, drain it, time it out, kill it."""
