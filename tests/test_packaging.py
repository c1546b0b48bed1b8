"""The wheel that is handed out: small, self-contained, complete."""

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = Path(os.environ.get("NEARWISE_WHEELS", ROOT / "target" / "wheels"))
WHEELS = sorted(FOLDER.glob("nearwise-*.whl"))
pytestmark = pytest.mark.skipif(not WHEELS, reason="no wheel: `make wheel` builds one")


@pytest.fixture(scope="module")
def wheel() -> zipfile.ZipFile:
    return zipfile.ZipFile(WHEELS[-1])


@pytest.fixture(scope="module")
def library(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    (name,) = [name for name in wheel.namelist() if re.match(r"nearwise/_core\b.*\.(so|pyd)$", name)]
    return Path(wheel.extract(name, tmp_path_factory.mktemp("wheel")))


def test_one_wheel_serves_every_python_from_3_11() -> None:
    assert "-cp311-abi3-" in WHEELS[-1].name


def test_the_wheel_is_no_larger_than_5_megabytes() -> None:
    assert WHEELS[-1].stat().st_size <= 5_000_000


def test_the_wheel_holds_every_module_of_the_package(wheel: zipfile.ZipFile) -> None:
    package = ROOT / "python"
    expected = {str(path.relative_to(package)) for path in package.rglob("*.py")}
    expected |= {"nearwise/py.typed", "nearwise/data/docstrings.npz"}
    expected |= {f"nearwise/cli/report/{name}" for name in ("report.css", "sort.js")}
    assert expected <= set(wheel.namelist())
    assert not [name for name in wheel.namelist() if name.startswith(("tests/", "benches/"))]


def test_the_wheel_carries_its_licences_and_its_command(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    (entry_points,) = [name for name in names if name.endswith("/entry_points.txt")]
    assert "nearwise=nearwise.cli:main" in wheel.read(entry_points).decode().replace(" ", "")
    assert {Path(name).name for name in names if "/licenses/" in name} >= {"LICENSE-MIT", "LICENSE-APACHE"}


def test_numpy_is_all_that_it_requires(wheel: zipfile.ZipFile) -> None:
    (metadata,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
    required = re.findall(r"^Requires-Dist: (.*)$", wheel.read(metadata).decode(), re.MULTILINE)
    assert [line for line in required if "extra ==" not in line] == ["numpy>=1.26"]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not installed")
def test_no_openmp_no_blas_and_no_python_is_linked(library: Path) -> None:
    if library.read_bytes()[:4] != b"\x7fELF":
        pytest.skip("not an ELF library")
    dynamic = subprocess.run(["readelf", "--dynamic", library], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert needed, dynamic
    assert all(re.match(r"(libc|libm|libgcc_s|libpthread|libdl|ld-linux.*)\.so", name) for name in needed), needed
