"""The tests of this folder need torch."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["*.py"]
if not find_spec("pytorch_metric_learning"):
    collect_ignore_glob.append("test_real_trainers.py")
