# expect: status load-error
# runs: cpu
"""Is the reference."""

from reference import Model


class ModelNew(Model):
    pass
