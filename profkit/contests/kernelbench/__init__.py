"""KernelBench's files and words: problems, candidates, baselines, results, fast_p, models."""
