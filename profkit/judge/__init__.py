"""The trusted side: the reference, test cases, the oracle, timing rounds, the judge's clock."""
