"""Installing: from where there is something, and never waiting for what is silent."""

import base64
import hashlib
import os
import socket
import subprocess
import sys
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.install import answers

SCRIPT = Path(__file__).parents[1] / "tools" / "install.py"
NAMES = ("first", "second", "third")


@contextmanager
def listener(reply):
    """Take connections, count them, and say ``reply``; "" is to say nothing."""
    connections = []

    def serve():
        while True:
            try:
                connection = server.accept()[0]
            except OSError:
                return
            connections.append(connection)
            if reply:
                connection.recv(4096)
                connection.sendall(reply.encode())
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/simple", connections
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(30)
            for connection in connections:
                connection.close()


def write_wheel(folder, name):
    """Write a package of one empty module."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={digest(text)},{len(text)}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


def digest(text):
    found = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(found).decode().rstrip("=")


@pytest.fixture
def packages(tmp_path):
    """A folder that is an index of three packages, and requirements that name them."""
    for name in NAMES:
        folder = tmp_path / "places" / name
        folder.mkdir(parents=True)
        write_wheel(folder, name)
        link = f'<a href="{name}-1.0-py3-none-any.whl">{name}</a>'
        (folder / "index.html").write_text(link)
    lines = "".join(f"{name}==1.0\n" for name in NAMES)
    (tmp_path / "requirements.txt").write_text(f"# a comment\n{lines}")
    return tmp_path


def install(folder, **places):
    """Run the tool, told of no place but these."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    target = str(folder / "target")
    return subprocess.run(
        [sys.executable, SCRIPT, "requirements.txt"],
        cwd=folder,
        env=plain | {"PIP_CONFIG_FILE": os.devnull, "PIP_TARGET": target} | places,
        capture_output=True,
        text=True,
    )


def test_a_silent_index_is_asked_once_and_not_for_each_package(packages):
    there = f"file://{packages / 'places'}"
    with listener("") as (index, connections):
        done = install(packages, PIP_INDEX_URL=index, PIP_EXTRA_INDEX_URL=there)
        assert len(connections) == 1
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in (packages / "target").glob("*.py")} == set(NAMES)
    assert done.stdout.splitlines() == [
        f"{index} does not answer; looking where else pip is told to.",
        "Installing the 3 packages of requirements.txt …",
    ]


def test_a_folder_of_wheels_will_do(packages):
    wheels = packages / "wheels"
    wheels.mkdir()
    for wheel in (packages / "places").rglob("*.whl"):
        wheel.rename(wheels / wheel.name)
    nobody = "http://127.0.0.1:9/simple"
    done = install(packages, PIP_INDEX_URL=nobody, PIP_FIND_LINKS=str(wheels))
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in (packages / "target").glob("*.py")} == set(NAMES)


def test_without_any_place_it_fails_with_pips_words(packages):
    done = install(packages, PIP_INDEX_URL="http://127.0.0.1:9/simple")
    assert done.returncode == 1
    assert "No matching distribution found for first==1.0" in done.stderr


@pytest.mark.parametrize("status", ["200 OK", "403 Forbidden", "404 Not Found"])
def test_an_index_that_refuses_is_there(status):
    reply = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"
    with listener(reply) as (index, _):
        assert answers(index)


def test_an_index_that_says_nothing_or_is_not_there_is_not():
    with listener("") as (index, _):
        assert not answers(index, seconds=0.05)
    assert not answers(index)
    with listener("no HTTP\r\n") as (index, _):
        assert not answers(index)
