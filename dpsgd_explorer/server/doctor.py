"""Checks of an installation: configuration, connectivity and security.

The checks change nothing: a database that does not exist yet is not created.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Literal

from flask.helpers import get_debug_flag

from dpsgd_explorer import machine
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.operation.readiness import Readiness
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.server.front import find_nginx
from dpsgd_explorer.server.supervisor import check_files
from dpsgd_explorer.settings import LOOPBACK_HOSTS, Settings
from dpsgd_explorer.web.http.visitor import KEY_BYTES, KEY_FILE

Level = Literal["ok", "warning", "fault"]
OK: Level = "ok"
WARNING: Level = "warning"
FAULT: Level = "fault"
GIB = 2**30
#: Free space on the disk below which a warning and a fault are reported.
SCARCE_BYTES, FULL_BYTES = 2 * GIB, GIB // 10
#: Minimum length and minimum number of distinct characters of a random token.
TOKEN_LENGTH, TOKEN_VARIETY = 22, 10
MIN_TORCH_VERSION = (2, 13)
PROCESSOR = Path("/proc/cpuinfo")
VECTOR_EXTENSIONS = ("avx512f", "avx2")  # vector instruction sets, widest first
OTHERS = 0o077
FILE = "sqlite:///"
#: Each C file below becomes a compiled library in the same folder.
KERNELS = Path(machine.__file__).parent / "dp" / "backends" / "native"


@dataclass(frozen=True)
class Finding:
    """Result of the check of one part of an installation."""

    part: str
    level: Level
    says: str


def examine(settings: Settings) -> Iterator[Finding]:
    """Yields the result of each check."""
    yield _instance(settings)
    yield _disk(settings)
    yield from _stored(settings)
    yield _cookie(settings)
    yield _debug()
    yield _exposure(settings)
    yield _proxy(settings)
    operation = settings.operation
    yield _token(
        "metrics token",
        operation.metrics_token,
        "/metrics answers only requests from this machine",
    )
    yield _retention(settings)
    yield _memory(settings)
    yield _torch()
    yield _kernels()
    yield _processor()


def _instance(settings: Settings) -> Finding:
    folder = settings.instance_dir
    if not _is_writable(folder):
        return Finding(
            "instance folder",
            FAULT,
            f"{folder} must be writable; set DPSGD_INSTANCE_DIR to a writable folder",
        )
    if folder.stat().st_mode & OTHERS:
        return Finding(
            "instance folder",
            WARNING,
            f"other users of this machine can open {folder}. Run: chmod 700 {folder}",
        )
    return Finding("instance folder", OK, str(folder))


def _is_writable(folder: Path) -> bool:
    try:
        probe = folder / ".doctor"
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True


def _disk(settings: Settings) -> Finding:
    free = shutil.disk_usage(settings.instance_dir).free
    says = f"{free / GIB:.1f} GiB free for {settings.instance_dir}"
    scarce = WARNING if free < SCARCE_BYTES else OK
    return Finding("disk", FAULT if free < FULL_BYTES else scarce, says)


def _stored(settings: Settings) -> Iterator[Finding]:
    """Opens the database and the queue as the site does, if they exist."""
    kind = settings.database_url.partition("://")[0]
    file = Path(settings.database_url.removeprefix(FILE))
    try:
        check_files(settings)
    except ConfigError as error:
        yield Finding("database", FAULT, str(error))
        return
    if settings.database_url.startswith(FILE) and not file.exists():
        yield Finding("database", OK, f"{kind}: the first start will create {file}")
        return
    try:
        store, doorbell = RunStore.from_settings(settings), Doorbell(settings)
    except Exception as error:  # errors of this program or of a driver
        yield Finding("database", FAULT, str(error).partition("\n")[0])
        return
    for check in Readiness(store.database, doorbell, store.clock).checks():
        says = f"{kind}: {check.says}" if check.name == "database" else check.says
        yield Finding(check.name, OK if check.is_ok else FAULT, says)
    store.database.close()


def _cookie(settings: Settings) -> Finding:
    if settings.operation.secret_key:
        return _token("cookie key", settings.operation.secret_key, "")
    if not settings.database_url.startswith(FILE):
        says = (
            "each web server creates a separate key, so one web server does not "
            "recognize the visitors of another"
        )
        return Finding(
            "cookie key",
            WARNING,
            f"{says}. Set DPSGD_SECRET_KEY to the same value for all",
        )
    key = settings.instance_dir / KEY_FILE
    if not key.exists():
        return Finding("cookie key", OK, f"the first start will create {key}")
    if key.stat().st_size != KEY_BYTES:
        return Finding(
            "cookie key",
            FAULT,
            f"{key} must have {KEY_BYTES} bytes. Delete it and restart the site; "
            "visitors then lose their list of runs",
        )
    if key.stat().st_mode & OTHERS:
        return Finding(
            "cookie key",
            FAULT,
            f"other users of this machine can read {key}. Run: chmod 600 {key}",
        )
    return Finding("cookie key", OK, f"{key}, readable only by its owner")


def _debug() -> Finding:
    if get_debug_flag():
        return Finding(
            "debug",
            FAULT,
            "FLASK_DEBUG is set, so visitors can read tracebacks. Unset it",
        )
    return Finding("debug", OK, "off")


def _exposure(settings: Settings) -> Finding:
    where = f"{settings.host}:{settings.port}, profile {settings.profile}"
    if settings.has_front:
        try:
            find_nginx()
        except ConfigError as error:
            return Finding("address", FAULT, str(error))
        return Finding("address", OK, f"{where}, with nginx in front")
    if settings.is_direct:
        return Finding(
            "address",
            WARNING,
            f"{where}: a few slow clients can stop the web server "
            "(DPSGD_ALLOW_DIRECT=1). Set DPSGD_FRONT=nginx to start an nginx in front "
            "of it",
        )
    return Finding("address", OK, where)


def _proxy(settings: Settings) -> Finding:
    """Checks which proxies are trusted, and whether cookies are Secure (TLS only)."""
    trusted = settings.operation.trusted_proxies
    flags = "cookies are HttpOnly and SameSite=Lax"
    if settings.is_behind_proxy:
        names = ", ".join(settings.hosts) or "no name in DPSGD_HOSTS"
        who = ", ".join(trusted) or "any peer"
        says = (
            f"forwarded headers are accepted from {who}, for {names}; {flags}, Secure "
            "under https"
        )
        is_open = not trusted and settings.host not in LOOPBACK_HOSTS
        return Finding("proxy", WARNING if is_open else OK, says)
    level = WARNING if settings.profile == "public" else OK
    return Finding(
        "proxy",
        level,
        f"none, so no TLS: {flags}, not Secure. Behind a proxy with TLS, set "
        "DPSGD_BEHIND_PROXY=1",
    )


def _token(part: str, token: str, without: str) -> Finding:
    if not token:
        return Finding(part, OK, f"none: {without}")
    if len(token) < TOKEN_LENGTH or len(set(token)) < TOKEN_VARIETY:
        return Finding(
            part,
            WARNING,
            'the token does not look random. Create one with python -c "import '
            'secrets; print(secrets.token_urlsafe(32))"',
        )
    return Finding(part, OK, f"{len(token)} characters")


def _retention(settings: Settings) -> Finding:
    if settings.keep_days is None:
        level = WARNING if settings.profile == "public" else OK
        return Finding(
            "retention",
            level,
            "runs are never deleted. Set DPSGD_RETENTION_DAYS to delete old runs",
        )
    return Finding(
        "retention", OK, f"runs are deleted {settings.keep_days} days after they end"
    )


def _memory(settings: Settings) -> Finding:
    needed = settings.workers * machine.PROCESS_MIB
    total_mib = machine.memory_mib()
    says = f"{settings.workers} simultaneous runs need about {needed:.0f} MiB"
    if total_mib is None:
        return Finding("workers", OK, says)
    level = WARNING if needed > total_mib else OK
    return Finding("workers", level, f"{says} of {total_mib:.0f}")


def _torch() -> Finding:
    """Reads the version of torch without importing it."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Finding(
            "torch",
            FAULT,
            "torch is not installed, so no run can start. Run: pip install torch",
        )
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    level = FAULT if numbers < MIN_TORCH_VERSION else OK
    return Finding("torch", level, version)


def _kernels() -> Finding:
    """Checks for the compiled libraries without importing torch."""
    sources = sorted(KERNELS.glob("*.c"))
    missing = [source.stem for source in sources if not _is_compiled(source)]
    if not missing:
        return Finding("kernels", OK, f"{len(sources)} compiled")
    return Finding(
        "kernels",
        WARNING,
        f"{len(missing)} of {len(sources)} are not compiled ({', '.join(missing)}), so "
        "private steps take longer. Install a C compiler and reinstall dpsgd-explorer",
    )


def _is_compiled(source: Path) -> bool:
    return any(
        source.with_name(f"_{source.stem}{suffix}").exists()
        for suffix in EXTENSION_SUFFIXES
    )


def _processor() -> Finding:
    flags: set[str] = set()
    with suppress(OSError):
        match = re.search(r"^flags\s*:(.*)$", PROCESSOR.read_text(), re.MULTILINE)
        flags = set(match[1].split()) if match else set()
    widest = next((name for name in VECTOR_EXTENSIONS if name in flags), None)
    if flags and widest is None:
        return Finding(
            "processor",
            WARNING,
            "the processor has no AVX2, so runs take several times longer",
        )
    return Finding("processor", OK, f"{machine.cores():g} cores, {widest or 'unknown'}")
