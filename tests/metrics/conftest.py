"""The tests of this folder need torchmetrics."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torchmetrics") else ["*.py"]
