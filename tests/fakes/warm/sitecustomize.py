"""Where this folder is on PYTHONPATH, runners of processes that a test starts are given a CPU's ceilings too, and these
processes print no pictures unless PRINTED is set.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys

MEASURING = ("profkit.runner.session", "profkit.runner.candidate", "profkit.runner.inprocess")
WRITING = "profkit.report.derived"


class Given(importlib.abc.MetaPathFinder):
    """Imports what is given before the first module that measures; not at the start, which it would make long."""

    def find_spec(self, name, path=None, target=None):
        if name in MEASURING:
            sys.meta_path.remove(self)
            importlib.import_module("given_ceilings")


class Composed(importlib.abc.MetaPathFinder):
    """Has what writes a run's pictures compose them alone."""

    def find_spec(self, name, path=None, target=None):
        if name != WRITING:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def execute_and_replace(module):
            execute(module)
            module.image = importlib.import_module("given_pictures").image

        spec.loader.exec_module = execute_and_replace
        return spec


sys.meta_path[:0] = [Given()] if os.environ.get("PRINTED") else [Given(), Composed()]
