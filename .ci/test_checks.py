"""Each check that .ci/run made before the tests, as a test: it fails with what the check printed."""

import os
from pathlib import Path

import pytest

LOGS = Path(os.environ["NEARWISE_CHECKS"])


@pytest.mark.parametrize("check", sorted(log.stem for log in LOGS.glob("*.log")))
def test_the_check_passes(check: str) -> None:
    status = (LOGS / f"{check}.status").read_text().strip()
    assert status == "0", f"{check} ended with status {status}:\n" + (LOGS / f"{check}.log").read_text()[-20_000:]
