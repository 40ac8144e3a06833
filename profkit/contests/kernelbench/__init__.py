"""KernelBench's formats: problems, candidates, baselines, results, fast_p, models."""
