"""The child's side: build, check, time and annotate. Started as `python -m profkit.runner JOB EVENTS`.

Nothing imports this package; it is the only part of profkit that imports torch and the user's code.
"""
