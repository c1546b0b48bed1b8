"""The examples need torch, scikit-learn and matplotlib."""

from importlib.util import find_spec

NEEDED = ("torch", "sklearn", "matplotlib")
collect_ignore_glob = [] if all(find_spec(name) for name in NEEDED) else ["*.py"]
