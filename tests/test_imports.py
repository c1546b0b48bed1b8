"""Who may import whom, and what an import of the package loads."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import nearwise

PACKAGE = Path(nearwise.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# The compiled core is reached from these alone.
CORE = {
    "__init__.py",  # its version
    "backends/rust.py",
    "evaluation/threshold.py",
    "index.py",
}
CORE_PACKAGES = ("evaluation/accuracy", "evaluation/_", "cli/info", "metrics/")

OPTIONAL = {
    "click",
    "faiss",
    "matplotlib",
    "ml_dtypes",
    "pyarrow",
    "pytorch_metric_learning",
    "record_keeper",
    "safetensors",
    "scipy",
    "sklearn",
    "tensorboard",
    "torch",
    "torchmetrics",
    "tqdm",
}

# Loaded lazily, by what needs them: these may name an optional package at their top.
NEEDS = {
    "_autograd.py": {"torch"},
    "backends/torch.py": {"torch"},
    "backends/_torch_estimate.py": {"torch"},
    "backends/_torch_lanes.py": {"torch"},
}
NEEDS_PACKAGES = {
    "cli/": {"click", "tqdm", "torch"},
    "compat/": {"torch", "pytorch_metric_learning"},
    "metrics/": {"torch", "torchmetrics"},
    "testers/": {"torch"},
    "logging_presets/": {"torch"},
    "evaluation/": set(),
}


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imports(tree: ast.AST, *, top_level: bool) -> set[str]:
    """Modules that are imported: anywhere, or when the module itself is imported."""
    found = set()
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
        elif top_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
    return found


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_the_core_is_imported_by_few_modules(path):
    reaches = any(
        module.startswith("nearwise._core") for module in imports(ast.parse(path.read_text()), top_level=False)
    )
    if reaches:
        assert name(path) in CORE or name(path).startswith(CORE_PACKAGES)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_optional_packages_are_imported_where_they_are_needed(path):
    roots = {module.partition(".")[0] for module in imports(ast.parse(path.read_text()), top_level=True)}
    allowed = NEEDS.get(name(path), set()).union(
        *(packages for prefix, packages in NEEDS_PACKAGES.items() if name(path).startswith(prefix))
    )
    assert roots & OPTIONAL <= allowed


def loaded_by(statement: str) -> set[str]:
    program = f"import sys; before = set(sys.modules); {statement}; print('\\n'.join(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return {module.partition(".")[0] for module in done.stdout.split()}


def test_importing_the_package_loads_numpy_alone():
    ours = loaded_by("import nearwise")
    third_party = {module for module in ours - set(sys.stdlib_module_names) if not module.startswith("_")}
    assert third_party <= {"nearwise", "numpy"}


@pytest.mark.rule("F-2")
@pytest.mark.parametrize("module", ["nearwise", "nearwise.evaluation"])
def test_importing_loads_neither_faiss_nor_scikit_learn(module):
    """https://github.com/facebookresearch/faiss/issues/2555: two OpenMP runtimes in one process abort."""
    assert not loaded_by(f"import {module}") & {"faiss", "sklearn", "scipy"}


def test_importing_adds_no_handler_and_sets_no_level():
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "nearwise"]
    assert "nearwise.neighbors" in names
    for logger in map(logging.getLogger, ["nearwise", *names]):
        assert logger.handlers == []
        assert logger.level == logging.NOTSET


@pytest.mark.rule("G-11")
@pytest.mark.parametrize("path", MODULES, ids=name)
def test_no_module_writes_the_environment(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            assert not ast.unparse(node.value).endswith("environ")
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert not called.endswith(("putenv", "unsetenv"))
            assert not ("environ." in called and called.rpartition(".")[2] in ("update", "setdefault", "pop", "clear"))


def test_private_modules_of_numpy_are_not_used():
    """https://github.com/nv-morpheus/Morpheus/issues/2190: a private module of NumPy that went away."""
    for path in MODULES:
        for module in imports(ast.parse(path.read_text()), top_level=False):
            assert not module.startswith(("numpy._", "numpy.core", "numpy.distutils")), name(path)
