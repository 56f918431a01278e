"""What deploy/ starts: its commands, its variables, its secrets, its units."""

import re
import subprocess
from pathlib import Path

import pytest

from dpsgd_explorer.cli.main import parser
from dpsgd_explorer.operation import SECRETS, WEB_SECRETS
from dpsgd_explorer.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
SHARED = ROOT / "dpsgd_explorer" / "server" / "nginx"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
OPTIONS = re.compile(r"-m dpsgd_explorer ([\w -]+)")


def variables_of(text):
    """The variables of ours that a file sets."""
    return set(re.findall(r"\b(DPSGD_[A-Z_]+)(?=[=:])", text))


def known_variables(folder):
    settings = Settings.from_environment({"DPSGD_INSTANCE_DIR": str(folder)})
    return {*settings.to_environment(), *(f"{name}_FILE" for name in SECRETS)}


@pytest.mark.parametrize(
    "file", [DEPLOY / "compose.yaml", *UNITS], ids=lambda file: file.name
)
def test_it_sets_only_what_there_is_to_set(file, tmp_path):
    found = variables_of(file.read_text(encoding="utf-8"))
    assert found
    assert found <= known_variables(tmp_path)


def test_every_command_of_a_container_is_one_of_ours():
    lists = re.findall(r'command: \["python", "-m", "dpsgd_explorer", (.*)\]', COMPOSE)
    commands = [re.findall(r'"([^"]+)"', text) for text in lists]
    assert ["serve", "--only", "web"] in commands
    assert ["serve", "--only", "worker"] in commands
    for command in commands:
        if command[0] != "database":
            parser().parse_args(command)


def test_every_secret_is_a_file_and_has_a_reader():
    declared = set(re.findall(r"(\w+): \{file: \./secrets/\1\}", COMPOSE))
    read = set(re.findall(r"_FILE: /run/secrets/(\w+)", COMPOSE))
    assert declared == read
    assert {"database_url", "metrics_token", "database_password"} <= declared
    assert not re.search(r"(PASSWORD|TOKEN|_URL): .*@", COMPOSE)


def test_only_web_servers_have_the_secrets_of_web_servers():
    services = re.split(r"\n  (?=\w+:)", COMPOSE.split("\nservices:")[1])
    having = [part for part in services if "metrics_token" in part and "<<:" in part]
    assert [part.split(":")[0].strip() for part in having] == ["web"]
    shared = COMPOSE.split("\nservices:")[0]
    assert not any(name in shared for name in WEB_SECRETS)


def test_the_command_of_the_readme_publishes_to_this_machine_alone():
    for file in ("README.md", "Dockerfile"):
        text = (ROOT / file).read_text(encoding="utf-8")
        published = re.findall(r"docker run .*-p (\S+)", text)
        assert published == ["127.0.0.1:8000:8000"]


def test_the_image_starts_nginx_and_is_no_root():
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    assert re.search(r"^USER (?!0|root)\w+$", image, re.MULTILINE)
    assert "nginx-light" in image
    variables = dict(re.findall(r"\b(HOST|PORT|DPSGD_\w+)=(\S+)", image))
    settings = Settings.from_environment(
        variables | {"DPSGD_INSTANCE_DIR": "/tmp", "DPSGD_HOSTS": "dp.example.org"}
    )
    assert (settings.has_front, settings.profile) == (True, "public")


def test_only_the_proxy_can_be_reached_from_outside():
    services = re.split(r"\n  (?=\w+:)", COMPOSE.split("\nservices:")[1])
    open_ones = [part.split(":")[0] for part in services if "ports:" in part]
    assert [name.strip() for name in open_ones] == ["proxy"]
    assert re.search(r"inside:\n    internal: true", COMPOSE)


def test_the_proxy_looks_up_the_web_servers_again_and_again(tmp_path):
    """An address that nginx keeps is nobody's once the web servers were restarted."""
    [block] = re.findall(r"- >-\n((?: {8}.*\n)+)", COMPOSE)
    script = " ".join(block.split("\n")).replace("$$", "$")
    made = tmp_path / "default.conf"
    shared = tmp_path / "explorer"
    for before, after in (
        ("/etc/explorer/nginx.conf", f"'{DEPLOY / 'nginx.conf'}'"),
        ("/etc/nginx/conf.d/default.conf", f"'{made}'"),
        ("/etc/explorer/", f"{SHARED}/"),
        ("/etc/nginx/explorer", str(shared)),
        ("exec nginx -g 'daemon off;'", "true"),
    ):
        assert before in script
        script = script.replace(before, after)
    subprocess.run(["sh", "-c", script], check=True, env={"SITE": "site.test"})
    site = made.read_text(encoding="utf-8")
    assert re.search(r"^resolver .*\bvalid=2s", site)
    assert 'map "" $web_servers { default web:8000; }' in site
    locations = (shared / "server.conf").read_text(encoding="utf-8")
    assert set(re.findall(r"proxy_pass (\S+);", locations)) == {"http://$web_servers"}
    assert re.findall(r"include (\S+);", site) == [
        f"{shared}/http.conf",
        f"{shared}/server.conf",
    ]
    assert (shared / "http.conf").is_file()
    assert "upstream dpsgd_explorer" not in site
    assert "dp.example.org" not in site
    assert "/etc/ssl/site.test/key.pem" in site


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_its_part_with_few_rights(unit):
    text = unit.read_text(encoding="utf-8")
    [command] = OPTIONS.findall(text)
    assert f"-{parser().parse_args(command.split()).only}." in unit.name
    values = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    assert values["User"] != "root"
    assert values["CapabilityBoundingSet"] == ""
    assert int(values["LimitNOFILE"]) >= 65536
    assert {"MemoryMax", "TasksMax"} <= values.keys()
    assert (values["ProtectSystem"], values["NoNewPrivileges"]) == ("strict", "yes")
    if "worker" in unit.name:
        assert not any(name in text for name in WEB_SECRETS)
    loaded = set(re.findall(r"^LoadCredential=(\w+):", text, re.MULTILINE))
    assert loaded == set(re.findall(r"_FILE=%d/(\w+)", text))
