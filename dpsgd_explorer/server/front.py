"""nginx in front of the web server, so that slow clients do not block its threads.

Started by ``serve`` as ``python -m dpsgd_explorer.server.front HOST PORT FOLDER``, if
DPSGD_FRONT is ``nginx``.  nginx listens at the public address and passes complete
requests to gunicorn's socket in the folder.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
from pathlib import Path

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.worker.prctl import die_with_parent
from dpsgd_explorer.settings import Settings

SHARED = Path(__file__).with_name("nginx")
#: Name of gunicorn's socket in the folder.
SOCKET_NAME = "web.sock"
# Folders of programs for administrators, which may be missing in a user's PATH.
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
MAX_CONNECTIONS = 8192
# Descriptors that are not connections: listening socket, log, cached files.
SPARE_DESCRIPTORS = 64
ALL_NETWORKS = ("0.0.0.0/0", "::/0")

# master_process off: one process, which the kernel ends with the supervisor.  Workers
# of a master that was killed would continue to listen.
MAIN = """daemon off;
master_process off;
pid "{folder}/nginx.pid";
error_log stderr warn;
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    client_body_temp_path "{folder}/body";
    proxy_temp_path "{folder}/proxy";
    fastcgi_temp_path "{folder}/fastcgi";
    uwsgi_temp_path "{folder}/uwsgi";
    scgi_temp_path "{folder}/scgi";
    proxy_cache_path "{folder}/cache" keys_zone=dpsgd_static:1m use_temp_path=off;
    include "{shared}/http.conf";
    upstream dpsgd_explorer {{
        server "unix:{folder}/{socket_name}";
        keepalive 32;
        keepalive_timeout 1s;
    }}
{outer_proxy}
    server {{
        listen {address};
        proxy_set_header X-Forwarded-Proto $dpsgd_scheme;
{user}        include "{shared}/server.conf";
    }}
}}
"""


def main(arguments: list[str]) -> None:
    """Replaces this process with nginx."""
    die_with_parent()
    host, port, folder = arguments
    file = Path(folder) / "nginx.conf"
    text = configuration(Settings.from_environment(), folder, host, port)
    file.write_text(text, encoding="utf-8")
    program = find_nginx()
    os.execv(program, [program, "-e", "stderr", "-c", str(file)])


def find_nginx() -> str:
    """Returns the path of nginx.

    Raises:
        ConfigError: nginx is not installed.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path=SYSTEM_FOLDERS)
    if program is None:
        raise ConfigError(
            "DPSGD_FRONT",
            "DPSGD_FRONT must be unset or none if nginx is not installed, got nginx. "
            "Install nginx (Debian: nginx-light), or unset DPSGD_FRONT and listen on "
            "127.0.0.1.",
        )
    return program


def configuration(settings: Settings, folder: str, host: str, port: str) -> str:
    """Returns the text of nginx.conf.

    Args:
        settings: Settings of the site.
        folder: Folder of gunicorn's socket and of nginx's temporary files.
        host: Public address, as numbers.
        port: Public port.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAIN.format(
        folder=folder,
        connections=max(min(MAX_CONNECTIONS, limit - SPARE_DESCRIPTORS), 1),
        shared=SHARED,
        socket_name=SOCKET_NAME,
        outer_proxy=_outer_proxy(settings),
        address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        user=_user(settings),
    )


def _outer_proxy(settings: Settings) -> str:
    """Returns directives for headers of a proxy in front of nginx."""
    networks = settings.operation.trusted_proxies
    is_every_peer = settings.is_behind_proxy and not networks
    lines = ["geo $realip_remote_addr $dpsgd_is_proxy {"]
    lines += [f"    default {int(is_every_peer)};"]
    lines += [f"    {network} 1;" for network in networks]
    lines += ["}", "map $dpsgd_is_proxy $dpsgd_scheme {", "    default $scheme;"]
    lines += ["    1 $http_x_forwarded_proto;", "}"]
    speakers = ALL_NETWORKS if is_every_peer else networks
    lines += [f"set_real_ip_from {network};" for network in speakers]
    lines += ["real_ip_header X-Forwarded-For;"]
    if header := settings.operation.user_header:
        value = f"$http_{header.lower().replace('-', '_')}"
        lines += ["map $dpsgd_is_proxy $dpsgd_user {", '    default "";']
        lines += [f"    1 {value};", "}"]
    return "\n".join(f"    {line}" for line in lines)


def _user(settings: Settings) -> str:
    """Returns the directive for the header with the name of a user, if there is one."""
    header = settings.operation.user_header
    return f"        proxy_set_header {header} $dpsgd_user;\n" if header else ""


if __name__ == "__main__":
    main(sys.argv[1:])
