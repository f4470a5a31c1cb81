"""Open a page in headless Chromium, save screenshots, and fail if it is not self-contained.

Usage: look_at_page.py CHROMIUM PAGE.html. Speaks the DevTools protocol over a pipe, so that every
request of the page is seen, and none that the browser makes for itself. Standard library only.
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

SECONDS = 60
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --disable-default-apps "
    "--disable-extensions --hide-scrollbars --remote-debugging-pipe"
).split()
# Name, width, colour scheme, medium; A4 is 718 pixels wide within its margins.
VIEWS = (
    ("desktop", 1100, "light", "screen"),
    ("dark", 1100, "dark", "screen"),
    ("phone", 390, "light", "screen"),
    ("print", 718, "dark", "print"),
)
# A page that does what a report must not: the check has to see it.
LEAKY = "data:text/html,<img src='http://127.0.0.1:9/leak.png'>"
# Wider than the window, pictures without a name, ids that occur twice, words that are cut off.
CHECKS = """(() => {
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  return {
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    unnamed: [...document.querySelectorAll('svg')].filter(e => !e.querySelector('title')).length,
    repeated: ids.filter((id, i) => ids.indexOf(id) !== i),
    cut: [...document.querySelectorAll('svg text')].filter(e => {
      const a = e.getBoundingClientRect(), b = e.ownerSVGElement.getBoundingClientRect();
      return a.left < b.left - 2 || a.right > b.right + 2 || a.top < b.top - 2
        || a.bottom > b.bottom + 2;
    }).map(e => e.textContent),
  };
})()"""


class Browser:
    """A headless Chromium with an empty profile."""

    def __init__(self, program: str) -> None:
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        their_in, self.to_browser = os.pipe()
        self.from_browser, their_out = os.pipe()
        flags = [*FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"]
        # Chromium reads commands from descriptor 3 and writes to 4.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$0" "$@" 3<&{their_in} 4>&{their_out}', program, *flags],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_in)
        os.close(their_out)
        self.deadline = time.monotonic() + SECONDS
        self.buffer = b""
        self.number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come before it are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"look-at-report: {method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait(self, method: str) -> None:
        """Return once an event of this name has come."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._receive())

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self.from_browser], [], [], left)[0]:
                raise SystemExit(f"look-at-report: Chromium said nothing for {SECONDS} s")
            chunk = os.read(self.from_browser, 1 << 20)
            if not chunk:
                raise SystemExit("look-at-report: Chromium ended early; does it start here at all?")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def __enter__(self) -> Browser:
        """Return the browser itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the browser and remove its profile."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.profile.cleanup()


def look(
    browser: Browser, url: str, *, width: int, scheme: str, medium: str
) -> tuple[list[str], dict[str, Any], bytes]:
    """Open a page; return what is wrong with it, its measures and a picture of all of it."""
    browser.events.clear()
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Network", "Page", "Log", "Runtime"):
        browser.call(f"{domain}.enable", session)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", session, media=medium, features=media)
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.call("Emulation.setDeviceMetricsOverride", session, **size)
    browser.call("Page.navigate", session, url=url)
    browser.wait("Page.loadEventFired")
    # What is fetched after loading (fonts, lazy pictures) has its chance.
    browser.call(
        "Runtime.evaluate",
        session,
        expression="new Promise(done => setTimeout(done, 500))",
        awaitPromise=True,
    )
    measures = browser.call("Runtime.evaluate", session, expression=CHECKS, returnByValue=True)
    picture = browser.call("Page.captureScreenshot", session, captureBeyondViewport=True)
    browser.call("Target.closeTarget", targetId=target)
    return (
        faults(browser.events, url),
        measures["result"]["value"],
        base64.b64decode(picture["data"]),
    )


def faults(events: list[dict[str, Any]], url: str) -> list[str]:
    """Return every request but that of the page itself, and every error."""
    found = []
    for event in events:
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            asked = params["request"]["url"]
            # Data that the page holds itself is no request.
            if asked != url and not asked.startswith("data:"):
                found.append(f"it requests {asked[:200]}")
        elif method == "Network.webSocketCreated":
            found.append(f"it opens {params['url'][:200]}")
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            found.append(f"error: {params['entry']['text'][:300]}")
        elif method == "Runtime.exceptionThrown":
            found.append(f"exception: {params['exceptionDetails']['text'][:300]}")
    return found


def main(program: str, page: Path) -> None:
    """Look at the page in every view."""
    with Browser(program) as browser:
        seen, _, _ = look(browser, LEAKY, width=400, scheme="light", medium="screen")
        if not any("leak.png" in fault for fault in seen):
            raise SystemExit("look-at-report: the check misses a page that requests a picture")
        wrong = []
        for name, width, scheme, medium in VIEWS:
            found, measures, picture = look(
                browser, page.as_uri(), width=width, scheme=scheme, medium=medium
            )
            page.with_name(f"{name}.png").write_bytes(picture)
            if measures["overflow"] > 0:
                found.append(f"it is {measures['overflow']} pixels wider than the window")
            if measures["unnamed"]:
                found.append(f"{measures['unnamed']} pictures have no text alternative")
            if measures["repeated"]:
                found.append(f"ids occur twice: {', '.join(measures['repeated'][:5])}")
            if measures["cut"]:
                found.append(f"words leave their picture: {'; '.join(measures['cut'][:5])}")
            wrong += [f"{name}: {fault}" for fault in found]
    if wrong:
        raise SystemExit("\n".join(f"look-at-report: {fault}" for fault in wrong))
    names = ", ".join(f"{name}.png" for name, *_ in VIEWS)
    print(f"look-at-report: the page asks for nothing but itself; {names} are in {page.parent}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve())
