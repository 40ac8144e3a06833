# expect: doubt reference
# runs: cpu
"""Is the reference."""

from reference import Model


class ModelNew(Model):
    pass
