"""The trusted side: the reference, the cases, the oracle, rounds and the outside clock."""
