#!/bin/sh
# Install the system packages that the tests need: Node, Chromium, three sets of fonts,
# nginx and a C compiler; with the argument "servers", or where packages may be
# installed anyway, also PostgreSQL, Redis and Firefox, which long tests start
# themselves. Where packages may not be installed, say what to install, and fail.
set -eu

OLDEST_NODE=18
wanted=""
if ! command -v node >/dev/null || [ "$(node -p 'process.versions.node.split(".")[0]')" -lt "$OLDEST_NODE" ]; then
    wanted="$wanted nodejs"
fi
# Chromium without windows takes half the time of the usual one, which does as well.
is_offered() {
    apt-cache show "$1" >/dev/null 2>&1
}
has_browser() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null
}
may_get_shell() {
    [ "$(id -u)" -eq 0 ] && is_offered chromium-headless-shell
}
if ! command -v chromium-headless-shell >/dev/null && { ! has_browser || may_get_shell; }; then
    wanted="$wanted chromium-headless-shell"
fi
if ! command -v fc-list >/dev/null; then
    wanted="$wanted fontconfig"
fi
if ! command -v cc >/dev/null; then
    wanted="$wanted gcc libc6-dev"
fi
if ! command -v nginx >/dev/null && [ ! -x /usr/sbin/nginx ]; then
    wanted="$wanted nginx-light"
fi
font() { # package, family
    if ! command -v fc-list >/dev/null || [ -z "$(fc-list ":family=$2")" ]; then
        wanted="$wanted $1"
    fi
}
font fonts-dejavu-core "DejaVu Sans"
font fonts-liberation "Liberation Sans"
font fonts-open-sans "Open Sans"
if [ "${1-}" = servers ] || [ "$(id -u)" -eq 0 ]; then
    if ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
        wanted="$wanted postgresql"
    fi
    if ! command -v redis-server >/dev/null; then
        wanted="$wanted redis-server"
    fi
    if ! command -v firefox-esr >/dev/null && ! command -v firefox >/dev/null; then
        wanted="$wanted firefox-esr"
    fi
fi
[ -z "$wanted" ] && exit 0

if command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
    echo "installing$wanted"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    if ! is_offered chromium-headless-shell; then
        wanted=$(echo "$wanted" | sed s/chromium-headless-shell/chromium/)
    fi
    # The packages' own servers are not started, and no database is made for them.
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod +x /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    fi
    # shellcheck disable=SC2086  # a list of names
    apt-get install -y -qq --no-install-recommends $wanted >/dev/null
    # Tests read the real Fashion-MNIST where it is; they do without it elsewhere.
    apt-get install -y -qq --no-install-recommends dataset-fashion-mnist >/dev/null || true
else
    echo "The tests need Node $OLDEST_NODE or later, Chromium, fonts, nginx and a C compiler; missing:$wanted." >&2
    echo "Install with your system's packages, e.g. sudo apt-get install$wanted" >&2
    exit 1
fi
