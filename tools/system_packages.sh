#!/bin/sh
# Bring what the tests need from the system's packages: Node, Chromium, three sets of
# fonts, and a C compiler. Where that may not be done, say what to install,
# and fail.
set -eu

OLDEST_NODE=18
wanted=""
if ! command -v node >/dev/null || [ "$(node -p 'process.versions.node.split(".")[0]')" -lt "$OLDEST_NODE" ]; then
    wanted="$wanted nodejs"
fi
if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
    wanted="$wanted chromium"
fi
if ! command -v fc-list >/dev/null; then
    wanted="$wanted fontconfig"
fi
if ! command -v cc >/dev/null; then
    wanted="$wanted gcc libc6-dev"
fi
font() { # package, family
    if ! command -v fc-list >/dev/null || [ -z "$(fc-list ":family=$2")" ]; then
        wanted="$wanted $1"
    fi
}
font fonts-dejavu-core "DejaVu Sans"
font fonts-liberation "Liberation Sans"
font fonts-open-sans "Open Sans"
[ -z "$wanted" ] && exit 0

if command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
    echo "installing$wanted"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of names
    apt-get install -y -qq --no-install-recommends $wanted >/dev/null
    # Tests read the real Fashion-MNIST where it is; they do without it elsewhere.
    apt-get install -y -qq --no-install-recommends dataset-fashion-mnist >/dev/null || true
else
    echo "The tests need Node $OLDEST_NODE or later, Chromium and fonts; missing:$wanted." >&2
    echo "Install with your system's packages, e.g. sudo apt-get install$wanted" >&2
    exit 1
fi
