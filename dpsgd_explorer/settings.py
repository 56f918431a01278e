"""The settings of an installation, read from environment variables.

| variable | default | meaning |
|---|---|---|
| ``DPSGD_INSTANCE_DIR`` | ``instance`` | database, queue, caches, cookie key |
| ``DPSGD_DATABASE_URL`` | SQLite in the instance folder | runs; or PostgreSQL |
| ``DPSGD_QUEUE_URL`` | with the runs | notifies workers: SQLite, PostgreSQL or Redis |
| ``DPSGD_PROFILE`` | ``local``: see below | or ``public``: quotas |
| ``DPSGD_WORKERS`` | ``auto``: see below | runs that train at the same time |
| ``DPSGD_THREADS`` | 1 | threads of one training process |
| ``DPSGD_KERNELS`` | ``exact`` | CPU speed-ups; ``fast``: other last bits; or ``off`` |
| ``DPSGD_DEVICE`` | ``cpu`` | where runs train; or ``auto``, ``cuda``, ``cuda:N`` |
| ``DPSGD_WEB_THREADS`` | 96 | threads of the web server |
| ``DPSGD_RUN_SECONDS`` | 1800 | limit of one run that has a core to itself |
| ``DPSGD_RUN_MEMORY_MIB`` | 4096 | memory limit of one run; at least 600 |
| ``DPSGD_RUN_COST`` | 2e13 | maximum multiply-adds of one run |
| ``DPSGD_HOSTS`` | none | names of this site besides ``localhost``, by commas |
| ``DPSGD_PUBLIC_URL`` | none | address of this site, for previews of links to it |
| ``DPSGD_LANGUAGE`` | ``en`` | language of the pages, where a catalogue is installed |
| ``DPSGD_FRONT`` | ``none`` | ``nginx``: one is started, for slow clients |
| ``DPSGD_ALLOW_DIRECT`` | 0 | 1: clients in a network need no nginx; see ``HOST`` |
| ``DPSGD_BEHIND_PROXY`` | 0 | 1: a proxy sets X-Forwarded-* headers |
| ``DPSGD_TRUSTED_PROXIES`` | none | proxies whose forwarded headers are used |
| ``DPSGD_USER_HEADER`` | none | header with the user's name from these proxies |
| ``DPSGD_OWN_DATA`` | 1, public: 0 | 1: visitors may upload tables |
| ``DPSGD_DATA_DIR`` | ``data`` in the instance folder | data files not in the package |
| ``DPSGD_OFFLINE`` | 0 | 1: no data file is downloaded |
| ``DPSGD_RETENTION_DAYS`` | ``none``, public: 30 | older runs are deleted |
| ``DPSGD_KEEP_DAYS`` | | former name of ``DPSGD_RETENTION_DAYS`` |
| ``DPSGD_LOG_FORMAT`` | ``text`` | or ``json``: one object per line, with requests |
| ``DPSGD_METRICS_TOKEN`` | none | opens ``/metrics`` to other machines |
| ``DPSGD_SECRET_KEY`` | a file | key for the cookies of all web servers |
| ``DPSGD_RECEIPT_KEY`` | none | Ed25519 keys (PEM) that sign receipts |
| ``HOST``, ``PORT`` | 127.0.0.1, 8000 | address of the site; see below |

The two addresses and the secrets may be in files: the path is in the variable with
``_FILE`` added to the name.  ``quotas.Quotas`` has the variables of quotas.
``DPSGD_WORKERS=auto`` means one run per core, three in the public profile, as far as
memory allows: see ``machine``.  ``DPSGD_DEVICE=auto`` means a GPU where PyTorch finds
one, else the CPU.  The default is ``cpu``, because no run of the site has been measured
on a GPU yet.  With ``DPSGD_FRONT=nginx`` and names in ``DPSGD_HOSTS``
the profile is ``public`` by default.  Other addresses than loopback in ``HOST`` need
``DPSGD_FRONT=nginx``, ``DPSGD_BEHIND_PROXY=1`` or ``DPSGD_ALLOW_DIRECT=1``.
"""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from dpsgd_explorer import machine
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.operation import Operation, with_secrets
from dpsgd_explorer.quotas import NO_LIMIT, QUOTAS, VARIABLE, Quotas
from dpsgd_explorer.validation import one_of

#: Contains one catalogue <language>.po per translation, see docs/maintainers.
LANGUAGES_DIR = Path(__file__).parent / "languages"
#: Choices of the kernels of a run, see ``training.cpu.kernels``.
KERNELS = ("exact", "fast", "off")
#: Devices of trainings: the CPU, a GPU where there is one, or a GPU (by its number).
DEVICE = re.compile(r"cpu|auto|cuda(:[0-9]{1,3})?")
#: Programs that accept connections in front of the web server.
FRONTS = ("none", "nginx")
#: Value of DPSGD_WORKERS that sizes the number of runs to the machine.
AUTO = "auto"
#: Smallest memory limit of a run: torch alone takes some 420 MiB, and a process that
#: loads it with less memory ends without an error message.
MIN_RUN_MEMORY_MIB = 600
#: Days after which each profile deletes runs that have ended.
KEEP_DAYS = {"local": NO_LIMIT, "public": "30"}

#: Default of DPSGD_OWN_DATA for each profile.
OWN_DATA = {"local": "1", "public": "0"}

NO_OPERATION = Operation()
LAST_PORT = 65_535
#: Beginning of the addresses of SQLite files.
FILE = "sqlite://"
#: Names under which this machine reaches itself.
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "[::1]", "localhost"})
PUBLIC_URL = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?")
HOST_NAME = re.compile(r"[a-z0-9._-]+|\[[0-9a-f:.]+\]")


@dataclass(frozen=True, kw_only=True)
class DataSources:
    """Sources of data files that are not in the package.

    Attributes:
        data_dir: Folder chosen by the user; None if no folder is chosen.
        is_offline: If True, nothing is downloaded.
    """

    data_dir: Path | None = None
    is_offline: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Reads the variables.

        Raises:
            ConfigError: names the first wrong variable.
        """
        values = os.environ if environment is None else environment
        chosen = values.get("DPSGD_DATA_DIR")
        if chosen and Path(chosen).exists() and not Path(chosen).is_dir():
            raise ConfigError(
                "DPSGD_DATA_DIR",
                f"DPSGD_DATA_DIR, or --data, must be a folder, got the file {chosen}.",
            )
        return cls(
            data_dir=Path(chosen).resolve() if chosen else None,
            is_offline=_one_of(values, "DPSGD_OFFLINE", "01", "0") == "1",
        )


def choose_data_dir(folder: str) -> None:
    """Sets DPSGD_DATA_DIR for this process and for the processes that it starts."""
    os.environ["DPSGD_DATA_DIR"] = folder


def user_cache() -> Path:
    """Returns the user's cache folder, for files that can be created again."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    root = chosen if chosen.is_absolute() else Path("~/.cache").expanduser()
    return root / "dpsgd-explorer"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of an installation; see the module's table."""

    instance_dir: Path
    database_url: str
    queue_url: str
    profile: str = "local"
    workers: int = 1
    threads: int = 1
    kernels: str = "exact"
    device: str = "cpu"
    web_threads: int = 96
    run_seconds: int = 1800
    run_memory_mib: int = 4096
    run_cost: float = 2e13
    hosts: tuple[str, ...] = ()
    public_url: str = ""
    language: str = "en"
    front: str = "none"
    allows_direct: bool = False
    is_behind_proxy: bool = False
    keep_days: int | None = None
    takes_own_data: bool = True
    data: DataSources = DataSources()
    operation: Operation = NO_OPERATION
    own_quotas: tuple[tuple[str, str], ...] = ()
    host: str = "127.0.0.1"
    port: int = 8000

    @property
    def wall_seconds(self) -> int:
        """Wall-clock limit of one run: longer where runs share cores."""
        runs_per_core = self.workers * self.threads / machine.cores()
        return round(self.run_seconds * max(1.0, runs_per_core))

    @property
    def trusted_hosts(self) -> frozenset[str]:
        """The host names, without port, that a request to this site may have.

        A request with another name is rejected: it may come from a page of another
        site whose name was made to point to this machine (DNS rebinding).
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        return LOOPBACK_HOSTS | {host.lower(), *self.hosts}

    @property
    def has_front(self) -> bool:
        """If True, nginx is started in front of the web server."""
        return self.front != "none"

    @property
    def is_direct(self) -> bool:
        """If True, clients in a network connect to the web server itself."""
        is_covered = self.has_front or self.is_behind_proxy
        return not is_covered and not _is_loopback(self.host)

    @property
    def quotas(self) -> Quotas:
        """The limits of the profile, with the limits that variables set."""
        return QUOTAS[self.profile].changed(dict(self.own_quotas))

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        creates_folder: bool = True,
    ) -> Self:
        """Reads the variables.

        Args:
            environment: Variables; None means the variables of this process.
            creates_folder: If True, create the instance folder where it is missing.

        Raises:
            ConfigError: a variable is wrong, or the folder cannot be created.
        """
        values = with_secrets(os.environ if environment is None else environment)
        folder = Path(values.get("DPSGD_INSTANCE_DIR", "instance")).resolve()
        if creates_folder:
            _create_folder(folder)
        hosts = _host_names(values.get("DPSGD_HOSTS", ""))
        front = _one_of(values, "DPSGD_FRONT", FRONTS, cls.front)
        is_named = front != cls.front and not LOOPBACK_HOSTS.issuperset(hosts)
        usual_profile = "public" if is_named else cls.profile
        profile = _one_of(values, "DPSGD_PROFILE", QUOTAS, usual_profile)
        own_quotas = {
            name: values[name] for name in values if name.startswith(VARIABLE)
        }
        QUOTAS[profile].changed(own_quotas)  # raises if a quota is wrong
        threads = _number(values, "DPSGD_THREADS", cls.threads)
        sources = DataSources.from_environment(values)
        database_url, queue_url = _addresses(values, folder)
        operation = Operation.from_values(values)
        settings = cls(
            instance_dir=folder,
            database_url=database_url,
            queue_url=queue_url,
            profile=profile,
            workers=_workers(values, profile, threads),
            threads=threads,
            kernels=_one_of(values, "DPSGD_KERNELS", KERNELS, cls.kernels),
            device=_device(values, cls.device),
            web_threads=_number(values, "DPSGD_WEB_THREADS", cls.web_threads),
            run_seconds=_number(values, "DPSGD_RUN_SECONDS", cls.run_seconds),
            run_memory_mib=_number(
                values,
                "DPSGD_RUN_MEMORY_MIB",
                cls.run_memory_mib,
                least=MIN_RUN_MEMORY_MIB,
            ),
            run_cost=float(_number(values, "DPSGD_RUN_COST", int(cls.run_cost))),
            hosts=hosts,
            public_url=public_url(
                "DPSGD_PUBLIC_URL", values.get("DPSGD_PUBLIC_URL", "")
            ),
            language=_one_of(values, "DPSGD_LANGUAGE", languages(), cls.language),
            front=front,
            allows_direct=_one_of(values, "DPSGD_ALLOW_DIRECT", "01", "0") == "1",
            is_behind_proxy=bool(operation.trusted_proxies)
            or _one_of(values, "DPSGD_BEHIND_PROXY", "01", "0") == "1",
            keep_days=_retention(values, KEEP_DAYS[profile]),
            takes_own_data=_one_of(values, "DPSGD_OWN_DATA", "01", OWN_DATA[profile])
            == "1",
            data=replace(sources, data_dir=sources.data_dir or folder / "data"),
            operation=operation,
            own_quotas=tuple(sorted(own_quotas.items())),
            host=values.get("HOST", cls.host),
            port=_number(values, "PORT", cls.port, most=LAST_PORT),
        )
        _check_exposure(settings)
        return settings

    def to_environment(self) -> dict[str, str]:
        """Returns the variables with which another process gets these settings."""
        return {
            "DPSGD_INSTANCE_DIR": str(self.instance_dir),
            "DPSGD_DATABASE_URL": self.database_url,
            "DPSGD_QUEUE_URL": self.queue_url,
            "DPSGD_PROFILE": self.profile,
            "DPSGD_WORKERS": str(self.workers),
            "DPSGD_THREADS": str(self.threads),
            "DPSGD_KERNELS": self.kernels,
            "DPSGD_DEVICE": self.device,
            "DPSGD_WEB_THREADS": str(self.web_threads),
            "DPSGD_RUN_SECONDS": str(self.run_seconds),
            "DPSGD_RUN_MEMORY_MIB": str(self.run_memory_mib),
            "DPSGD_RUN_COST": str(self.run_cost),
            "DPSGD_HOSTS": ",".join(self.hosts),
            "DPSGD_PUBLIC_URL": self.public_url,
            "DPSGD_LANGUAGE": self.language,
            "DPSGD_FRONT": self.front,
            "DPSGD_ALLOW_DIRECT": str(int(self.allows_direct)),
            "DPSGD_BEHIND_PROXY": str(int(self.is_behind_proxy)),
            "DPSGD_RETENTION_DAYS": str(self.keep_days or NO_LIMIT),
            "DPSGD_OWN_DATA": str(int(self.takes_own_data)),
            "DPSGD_DATA_DIR": str(self.data.data_dir or ""),
            "DPSGD_OFFLINE": str(int(self.data.is_offline)),
            "HOST": self.host,
            "PORT": str(self.port),
            **self.operation.to_environment(),
            **dict(self.own_quotas),
        }


def languages() -> list[str]:
    """Returns English and the languages that have a catalogue."""
    return [
        Settings.language,
        *sorted(file.stem for file in LANGUAGES_DIR.glob("*.po")),
    ]


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            "DPSGD_INSTANCE_DIR",
            "DPSGD_INSTANCE_DIR must be a folder that exists or can be created, got "
            f"{folder}: {error.strerror}.",
        ) from None


def _one_of(
    values: Mapping[str, str], name: str, choices: Collection[str], default: str
) -> str:
    return one_of(name, values.get(name, default), choices)


def _workers(values: Mapping[str, str], profile: str, threads: int) -> int:
    """Reads the number of runs that train at a time; "auto" fits it to the machine."""
    if values.get("DPSGD_WORKERS", AUTO) == AUTO:
        return machine.runs_at_a_time(threads, for_many=profile == "public")
    return _number(values, "DPSGD_WORKERS", 1)


def _device(values: Mapping[str, str], default: str) -> str:
    """Reads the device of trainings; ``training.devices`` looks for the GPU."""
    name = values.get("DPSGD_DEVICE", default)
    if not DEVICE.fullmatch(name):
        raise ConfigError(
            "DPSGD_DEVICE",
            "DPSGD_DEVICE must be cpu, auto, cuda or cuda:N, with N the number of a "
            f"GPU, got {name!r}.",
        )
    return name


def _count(values: Mapping[str, str], name: str, default: str) -> int | None:
    """Reads a number, or None for "none"."""
    text = values.get(name, default)
    return None if text == NO_LIMIT else _number({name: text}, name, 1)


def _retention(values: Mapping[str, str], default: str) -> int | None:
    """Reads the retention in days; the former name counts if the new one is not set."""
    former = values.get("DPSGD_KEEP_DAYS", default)
    return _count(values, "DPSGD_RETENTION_DAYS", former)


def _number(
    values: Mapping[str, str],
    name: str,
    default: int,
    *,
    least: int = 1,
    most: float = math.inf,
) -> int:
    text = values.get(name, str(default))
    try:
        number = int(float(text))
    except (ValueError, OverflowError):
        number = 0
    if not least <= number <= most:
        limit = "" if most == math.inf else f" and at most {most}"
        raise ConfigError(
            name,
            f"{name} must be a whole number, at least {least}{limit}, got {text!r}.",
        )
    return number


def _host_names(text: str) -> tuple[str, ...]:
    parts = [part.strip().lower() for part in text.split(",")]
    names = tuple(part for part in parts if part)
    for name in names:
        if not HOST_NAME.fullmatch(name):
            raise ConfigError(
                "DPSGD_HOSTS",
                "DPSGD_HOSTS must be names without scheme and port, separated by "
                f"commas, such as dp.example.org, got {name!r}.",
            )
    return names


def public_url(name: str, text: str) -> str:
    """Reads the address of the site, without a slash at its end; "" if it is not set.

    Args:
        name: Variable or option, for the error message.
        text: Value of the variable or option.

    Raises:
        ConfigError: the value is no such address.
    """
    url = text.strip().rstrip("/")
    if url and not PUBLIC_URL.fullmatch(url):
        raise ConfigError(
            name,
            f"{name} must be scheme and name, such as https://dp.example.org, got "
            f"{text!r}.",
        )
    return url


def _addresses(values: Mapping[str, str], folder: Path) -> tuple[str, str]:
    """Reads where runs and queue are: both on this machine, or both on servers."""
    database = values.get("DPSGD_DATABASE_URL") or f"{FILE}/{folder}/runs.sqlite3"
    is_file = database.startswith(FILE)
    beside = f"{FILE}/{folder}/queue.sqlite3" if is_file else database
    queue = values.get("DPSGD_QUEUE_URL") or beside
    if is_file and not queue.startswith(FILE):
        raise ConfigError(
            "DPSGD_QUEUE_URL",
            "DPSGD_QUEUE_URL must be a SQLite file where DPSGD_DATABASE_URL is one: "
            "workers on other machines would be notified of runs that they cannot "
            "read. Set DPSGD_DATABASE_URL=postgresql+psycopg://… too, or leave both "
            "out.",
        )
    if not is_file and queue.startswith(FILE):
        raise ConfigError(
            "DPSGD_QUEUE_URL",
            "DPSGD_QUEUE_URL must be redis://… or postgresql+psycopg://… if "
            "DPSGD_DATABASE_URL is not a SQLite file: workers on other machines would "
            "not be notified of runs. Leave it out to use the database for both.",
        )
    return database, queue


def _check_exposure(settings: Settings) -> None:
    """Rejects a web server that is exposed to slow clients, or has no host name.

    A client that sends its request slowly, or reads the response slowly, occupies a
    thread of the web server.  With nginx in front, it occupies nginx instead.
    """
    if settings.is_direct and not settings.allows_direct:
        raise ConfigError(
            "HOST",
            "HOST must be a loopback address if the web server has no nginx in front, "
            f"got {settings.host}: a few slow clients would stop it. Set "
            "DPSGD_FRONT=nginx to start one, DPSGD_BEHIND_PROXY=1 behind a proxy "
            "(docs/how-to/operate/quick-start.md), or, in a network that you trust, "
            "such as a classroom, DPSGD_ALLOW_DIRECT=1.",
        )
    if settings.profile != "public":
        return
    if settings.is_behind_proxy and not settings.hosts:
        raise ConfigError(
            "DPSGD_HOSTS",
            "DPSGD_HOSTS must name this site if DPSGD_PROFILE is public, such as "
            "dp.example.org; it is empty.",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOOPBACK_HOSTS
