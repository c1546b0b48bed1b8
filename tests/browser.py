"""Chromium without a window, spoken to by its DevTools protocol through a pair of pipes."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class StartError(Exception):
    """The program ended before it answered."""


NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Chromium expects the pipes as descriptors 3 and 4; they are first put where neither can be in the other's way.
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 64) for end in sys.argv[1:3]]
for end, place in zip(ends, (3, 4)):
    os.dup2(end, place)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def find() -> str | None:
    """Return where a Chromium is, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a Chromium; what it requested and what went wrong in it is kept."""

    def __init__(self, program: str, profile: Path) -> None:
        own_read, its_write = os.pipe()
        its_read, self._write = os.pipe()
        self._read = own_read
        options = ["--headless", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-first-run",
                   "--disable-gpu", "--disable-background-networking", "--disable-component-update",
                   "--disable-dev-shm-usage"]  # fmt: skip
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        starter = [sys.executable, "-c", _START, str(its_read), str(its_write), program, *options]
        self._process = subprocess.Popen(
            starter, pass_fds=(its_read, its_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(its_read)
        os.close(its_write)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[str] = []
        self.requests: list[str] = []
        self.complaints: list[str] = []
        try:
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
        except (BrokenPipeError, EOFError):
            raise StartError(f"{program} ended with status {self._process.wait(10)}") from None
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self._call(f"{domain}.enable")

    def open(self, path: Path, *, scheme: str = "light") -> None:
        """Load a file, and forget what earlier pages did."""
        self.requests, self.complaints, self._events = [], [], []
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=features)
        self._call("Page.navigate", url=path.as_uri())
        while "Page.loadEventFired" not in self._events:
            self._receive(time.monotonic() + 30)
        self.evaluate("new Promise(done => setTimeout(done, 100))")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def close(self) -> None:
        """End the process."""
        os.close(self._write)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)

    def _call(self, method: str, **params: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._read, 1 << 16) if ready else b""
            if not part:
                raise EOFError("chromium has ended") if ready else TimeoutError("chromium does not answer")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, params: dict[str, Any]) -> None:
        self._events.append(event)
        if event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(params["args"]))
        elif event == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
