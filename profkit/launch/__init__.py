"""The parent's side: start, feed, drain, time out and kill child processes."""
