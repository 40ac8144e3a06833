"""Where this folder is on PYTHONPATH, runners of processes that a test starts are given a CPU's ceilings too, and these
processes print no pictures unless PRINTED is set, and have no servers of their own where a test session has named its.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import sys

MEASURING = ("profkit.judge.session", "profkit.guest.candidate", "profkit.torch_tools.inprocess")


class Given(importlib.abc.MetaPathFinder):
    """Imports what is given before the first module that measures; not at the start, which it would make long."""

    def find_spec(self, name, path=None, target=None):
        if name in MEASURING:
            sys.meta_path.remove(self)
            importlib.import_module("given_ceilings")


class After(importlib.abc.MetaPathFinder):
    """Has something done to a module once it is imported."""

    def __init__(self, name, change):
        self._name, self._change = name, change

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            self._change(module)

        spec.loader.exec_module = execute_and_change
        return spec


def compose(derived):
    """Have what writes a run's pictures compose them alone."""
    derived.image = importlib.import_module("given_pictures").image


def borrow(warm):
    """Have runners be forks of the session's servers."""
    warm.process.start = importlib.import_module("session_servers").Servers(os.environ["TESTS_SERVERS"])


sys.meta_path.insert(0, Given())
if not os.environ.get("PRINTED"):
    sys.meta_path.insert(0, After("profkit.report.derived", compose))
if os.environ.get("TESTS_SERVERS"):
    sys.meta_path.insert(0, After("profkit.launch.warm", borrow))
