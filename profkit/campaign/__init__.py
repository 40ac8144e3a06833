"""Many runs: an index, their history, and a site."""
