"""The connection to the server is lost in mid-run, and comes back."""

import contextlib
import re
import socket
import threading
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import LONG, at, run_button, status

pytestmark = pytest.mark.long("more journeys")


class Relay:
    """A TCP relay to the product that can be cut, as a network is."""

    def __init__(self, address):
        self.target = ("127.0.0.1", urlsplit(address).port)
        self.is_cut = False
        self.sockets = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.is_cut:
                client.close()
                continue
            server = socket.create_connection(self.target)
            self.sockets |= {client, server}
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self.pump, args=ends, daemon=True).start()

    @staticmethod
    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        self.is_cut = True
        for end in self.sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self):
        self.is_cut = False

    def close(self):
        self.listener.close()
        self.cut()


@pytest.fixture
def relay(address):
    relay = Relay(address)
    yield relay
    relay.close()


def test_an_outage_is_named_and_forgotten_once_it_ends(open_page, relay):
    page = open_page(
        at(LONG),
        at=f"http://127.0.0.1:{relay.port}",
        new_visitor=True,
        expected=["ERR_", "Failed to load resource"],
    )
    run_button(page).click()
    expect(status(page)).to_have_text("Training")
    relay.cut()
    said = page.locator("[data-failure]")
    expect(said).to_have_text(re.compile(r"^No connection to the server since .*\d"))
    page.locator("[data-stop]").click()
    alert = page.locator("[data-run-error]")
    expect(alert).to_contain_text("The server does not answer")
    relay.mend()
    expect(said).to_be_hidden()
    expect(alert).to_be_hidden()
    before = status(page, "detail").inner_text()
    expect(status(page, "detail")).not_to_have_text(before)
    page.locator("[data-stop]").click()
    expect(status(page)).to_have_text("Stopped")
