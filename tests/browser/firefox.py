"""Firefox, driven by its own protocol: WebDriver BiDi over a web socket.

Playwright drives a Firefox of its own, which no package registry has.
"""

import contextlib
import json
import re
import shutil
import subprocess
import time

from websockets.sync.client import connect

LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
START_S, ANSWER_S = 120, 120
LARGEST_MESSAGE = 2**24
BINARIES = ("firefox-esr", "firefox")


@contextlib.contextmanager
def started_firefox(folder):
    """Start Firefox with an empty profile in a folder; ends it afterwards."""
    binary = next(filter(None, map(shutil.which, BINARIES)))
    log = folder / "firefox.txt"
    command = [binary, "--headless", "--no-remote", "--profile", str(folder)]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--remote-debugging-port", "0"], stdout=output, stderr=output
        )
    try:
        address = f"{_address(process, log)}/session"
        with connect(address, max_size=LARGEST_MESSAGE) as socket:
            yield Firefox(socket)
    finally:
        process.terminate()
        process.wait(START_S)


def _address(process, log):
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        if found := LISTENING.search(log.read_text()):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(log.read_text())


class Firefox:
    """One tab of a Firefox that listens on a web socket."""

    def __init__(self, socket):
        """Open the tab and collect the errors of its pages from now on."""
        self.socket = socket
        self.sent = 0
        self.faults = []
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=["log.entryAdded"])
        self.context = self.ask("browsingContext.create", type="tab")["context"]

    def ask(self, method, **params):
        """Send a command; return its result, and note errors of pages on the way."""
        self.sent += 1
        self.socket.send(
            json.dumps({"id": self.sent, "method": method, "params": params})
        )
        while True:
            answer = json.loads(self.socket.recv(ANSWER_S))
            if answer.get("id") == self.sent:
                assert answer["type"] == "success", answer
                return answer["result"]
            if answer.get("method") == "log.entryAdded":
                entry = answer["params"]
                if entry["level"] in ("error", "warn"):
                    frames = (entry.get("stackTrace") or {}).get("callFrames", [])
                    where = [f"{one['url']}:{one['lineNumber']}" for one in frames[:2]]
                    self.faults.append(" ".join([entry["text"], *where]))

    def open(self, url):
        """Go to a page and wait until it is loaded.

        What a page was still fetching fails when it is left, and is no fault of it.
        """
        known = list(self.faults)
        self._navigate("about:blank")
        self.faults = known
        self._navigate(url)

    def _navigate(self, url):
        self.ask(
            "browsingContext.navigate", context=self.context, url=url, wait="complete"
        )

    def value(self, expression):
        """Return what an expression is worth in the page; a promise is awaited."""
        answer = self.ask(
            "script.evaluate",
            expression=expression,
            target={"context": self.context},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer
        return answer["result"].get("value")

    def wait_for(self, expression, wanted=True):
        """Wait until an expression is worth a value."""
        end = time.monotonic() + ANSWER_S
        while (found := self.value(expression)) != wanted:
            assert time.monotonic() < end, f"{expression} is {found!r}, not {wanted!r}"
            time.sleep(0.1)

    def click(self, selector):
        """Press the mouse on an element, as a hand does."""
        found = self.ask(
            "browsingContext.locateNodes",
            context=self.context,
            locator={"type": "css", "value": selector},
        )
        element = {"sharedId": found["nodes"][0]["sharedId"]}
        origin = {"type": "element", "element": element}
        moves = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": origin},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._act({"type": "pointer", "id": "mouse", "actions": moves})

    def press(self, key):
        """Press a key where the focus is."""
        strokes = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keyboard", "actions": strokes})

    def _act(self, *sources):
        self.ask("input.performActions", context=self.context, actions=list(sources))
