"""Every setting, route and environment variable is documented, and links lead on."""

import re
import subprocess
import sys
import threading
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest

from dpsgd_explorer import operation, settings
from dpsgd_explorer.experiments.kinds import LAUNCHED
from dpsgd_explorer.settings import Settings
from dpsgd_explorer.web import create_app
from dpsgd_explorer.web.api.openapi import described_routes
from tests.families import FOLDERS, LONG, RELEASE
from tests.forked_programs import ForkedPrograms, environment
from tools import (
    build_docs,
    draw_architecture,
    marked_text,
    write_auditing_page,
    write_cli_page,
    write_configuration_page,
    write_errors_page,
    write_http_api_page,
    write_presets_page,
    write_sharp_edges_page,
)

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    p for at in ("", "docs/**/", "examples/**/") for p in ROOT.glob(f"{at}*.md")
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)")
PARAMETER = re.compile(r"<(?:\w+:)?\w+>")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def everything():
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


READERS = (settings, operation)


def variables():
    """Return the names of the environment variables that settings are read from."""
    sources = [Path(m.__file__).read_text(encoding="utf-8") for m in READERS]
    code = "".join(source.split('"""', 2)[2] for source in sources)
    return sorted(set(re.findall(r'"(DPSGD_[A-Z_]+|HOST|PORT)"', code)))


def test_every_setting_has_a_row_in_a_table():
    rows = set(re.findall(r"^\| `(\w+)` \|.+\|$", everything(), flags=re.MULTILINE))
    for kind in LAUNCHED.values():
        assert set(kind.config.model_fields) - rows == set()


@pytest.mark.parametrize(
    "command",
    [
        write_auditing_page,
        write_cli_page,
        write_configuration_page,
        write_errors_page,
        write_http_api_page,
        write_presets_page,
        write_sharp_edges_page,
    ],
    ids=lambda command: command.__name__.split(".")[-1],
)
def test_what_a_command_writes_is_up_to_date(command):
    written = command.PAGE.read_text(encoding="utf-8")
    expected = marked_text.updated(command.PAGE, command.parts())
    assert written == expected, f"run python -m {command.__name__}"


ARCHITECTURE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(
    encoding="utf-8"
)


def test_the_picture_of_the_layers_shows_those_there_are():
    """Counts of modules and of imports may be those of an earlier day."""
    drawn = draw_architecture.draw(draw_architecture.layers())
    written = draw_architecture.PICTURE.read_text(encoding="utf-8")
    names = [re.sub(r"\d[\d.]*", "", text) for text in (written, drawn)]
    assert names[0] == names[1], "run python -m tools.draw_architecture"


def test_the_architecture_names_every_folder_and_only_files_there_are():
    package = ROOT / "dpsgd_explorer"
    folders = {
        path.parent.relative_to(package)
        for path in package.rglob("*.py")
        if path.parent.parent not in draw_architecture.ROOMS
    }
    bold = set(re.findall(r"\*\*([\w/]+)\*\*", ARCHITECTURE))
    assert {folder.as_posix() for folder in folders} - {"."} <= bold
    paths = re.findall(r"`((?:\w+/)+[\w.]+)`", ARCHITECTURE)
    places = (ROOT, package)
    assert [
        path for path in paths if not any((at / path).exists() for at in places)
    ] == []


def test_every_family_of_tests_has_a_row_on_the_page_of_tests():
    text = (ROOT / "docs" / "maintainers" / "testing.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (?!family)(\w.*?) \| (.*?) \| .* \| .* \|$", text, re.MULTILINE
    )
    folders = {f"tests/{name}": caught for name, caught in FOLDERS.items()}
    assert dict(rows) == folders | LONG | RELEASE, (
        "run python -m tools.write_testing_page"
    )


def test_every_folder_of_tests_is_a_family():
    tests = ROOT / "tests"
    assert {path.relative_to(tests).parts[0] for path in tests.glob("*/**/*test*")} - {
        *FOLDERS,
        "__pycache__",
    } == set()


def test_every_environment_variable_is_documented():
    text = everything()
    assert [name for name in variables() if f"`{name}`" not in text] == []


def test_the_table_of_variables_beside_the_code_is_complete():
    documented = set(re.findall(r"``(DPSGD_[A-Z_]+|HOST|PORT)``", settings.__doc__))
    assert documented == set(variables())


def test_the_api_routes_are_documented_and_no_other(tmp_path):
    app = create_app(Settings.from_environment({"DPSGD_INSTANCE_DIR": str(tmp_path)}))
    routes = {
        f"{operation.method} {PARAMETER.sub('{}', rule)}"
        for rule, operation in described_routes(app)
    }
    text = (ROOT / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `([A-Z]+ /[^`?]*)` \|", text, flags=re.MULTILINE)
    assert {re.sub("{[a-z_]+}", "{}", route) for route in documented} == routes
    app.extensions["run_store"].database.close()


def test_the_glossary_names_the_kinds_of_event():
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    entry = text.partition("**Event.**")[2].partition("\n\n")[0]
    assert re.findall(r"`(\w+)`", entry) == write_http_api_page.event_kinds()


DECISIONS = ROOT / "docs" / "decisions"
DECISION = re.compile(
    r"# (?P<number>\d{4}): (?P<title>\S.*\S)\n\n"
    r"\*\*Status:\*\* (?P<status>\S.*)\n\n"
    r"\*\*Date:\*\* (?P<date>\d{4}-\d{2}-\d{2})\n\n"
    r"\*\*Context\.\*\*\s(?P<context>.+)\n\n"
    r"\*\*Decision\.\*\*\s(?P<decision>.+)\n\n"
    r"\*\*Consequences\.\*\*\s(?P<consequences>.+)\n\n"
    r"\*\*Alternatives considered\.\*\*\s(?P<alternatives>.+)\n",
    re.DOTALL,
)
STATUS = re.compile(r"accepted\.|(accepted\. S|s)upersede[sd] (by )?\[\d{4}\]\(\S+\)\.")


@pytest.mark.parametrize(
    "page", sorted(DECISIONS.glob("0*.md")), ids=lambda page: page.stem
)
def test_decisions_have_one_format(page):
    text = page.read_text(encoding="utf-8")
    match = DECISION.fullmatch(text)
    assert match, "the parts of a decision are those of DECISION, in its order"
    assert page.name.startswith(f"{match['number']}-")
    assert "\n" not in match["title"]
    assert STATUS.fullmatch(match["status"])
    date.fromisoformat(match["date"])
    parts = re.findall(r"^\*\*([A-Z][a-z ]+)[.:]\*\*", text, flags=re.MULTILINE)
    assert len(parts) == len(set(parts)) == 6


def test_decisions_that_supersede_and_are_superseded_name_each_other():
    pairs = {"Supersedes": set(), "superseded by": set()}
    for page in DECISIONS.glob("0*.md"):
        text = page.read_text(encoding="utf-8")
        for verb, other in re.findall(r"(Supersedes|superseded by) \[(\d+)\]", text):
            pairs[verb].add((page.name[:4], other))
    assert pairs["Supersedes"]
    assert pairs["Supersedes"] == {(new, old) for old, new in pairs["superseded by"]}


def test_links_between_decisions_show_the_number_of_their_page():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for shown, number in re.findall(r"\[[^\]]*?(\d{4})\]\(\S*?(\d{4})-\S+\)", text):
            assert shown == number, page.name


def test_the_index_of_decisions_has_each_with_its_title():
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", index, re.MULTILINE)
    pages = sorted(DECISIONS.glob("0*.md"))
    assert [name for _, name, _ in rows] == [page.name for page in pages]
    for (number, _, title), page in zip(rows, pages, strict=True):
        head, *_ = page.read_text(encoding="utf-8").splitlines()
        assert head == f"# {number}: {title}"
    assert [int(number) for number, *_ in rows] == [*range(1, len(pages) + 1)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_tree_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    targets = [*LINK.findall(text), *(target for _, target in PICTURE.findall(text))]
    for target in targets:
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_column_of_a_table_has_a_name(page):
    rows = page.read_text(encoding="utf-8").split("\n")
    heads = [row for row, below in pairwise(rows) if re.match(r"\|[ :|-]+\|$", below)]
    for head in heads:
        assert all(cell.strip() for cell in head.strip("|").split("|")), head


def test_pictures_say_what_they_show():
    assert all(len(alt) > 10 for alt, _ in PICTURE.findall(everything()))


def test_the_page_of_requests_names_tests_that_exist():
    text = (ROOT / "docs" / "explanation" / "asked-for.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \|", text, re.M) == [*map(str, range(1, 26))]
    assert all((ROOT / path).is_file() for path in re.findall(r"`(tests/.+?)`", text))


HOW_TO = (
    "from-opacus",
    "from-fastdp",
    "gpus",
    "token-losses",
    "users",
    "each-record-once",
    "correlated-noise",
    "public-rows",
    "audit-a-run",
    "hugging-face",
    "lightning",
)
API = ("dp", "schedules", "accounting", "regression", "compat")
LONG_PAGES = (
    "docs/reference/errors.md",
    *(f"docs/reference/api/{name}.md" for name in API),
    *(f"docs/how-to/{name}.md" for name in HOW_TO),
)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        *(pytest.param(p, marks=pytest.mark.long("every example")) for p in LONG_PAGES),
    ],
)
def test_the_examples_of_a_page_run(page, run_program, tmp_path):
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        code, output = run_program(block, tmp_path)
        assert code == 0, f"{block}\n{output}"


@pytest.fixture(scope="module")
def run_program():
    """Run a program in a folder; return its exit code and its output."""
    with ForkedPrograms() as forked:
        yield forked.run


def test_the_command_of_the_page_of_commands_runs(tmp_path):
    text = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    [command] = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    done = subprocess.run(
        ["sh", "-ec", command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert "ε" in done.stdout


def test_links_to_other_hosts_are_followed(tmp_path, dead_and_live_host):
    """The reader's machine and invented hosts are left out."""
    (tmp_path / "index.md").write_text(
        f"# Links\n\n<{dead_and_live_host}/live> <{dead_and_live_host}/dead>\n"
        "<http://127.0.0.1:1/> <https://dp.example.org/>\n"
    )
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "linkcheck"]
    done = subprocess.run(
        [*command, "-c", str(ROOT / "docs"), str(tmp_path), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert re.findall(r"broken link: (\S+)", done.stderr) == [
        f"{dead_and_live_host}/dead"
    ]


@pytest.fixture
def dead_and_live_host():
    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(200 if self.path == "/live" else 404)
            self.end_headers()

        do_GET = do_HEAD

    server = ThreadingHTTPServer(("127.0.0.2", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.2:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
# How-to pages whose blocks use names of earlier blocks, as those of tutorials do.
PROGRAMS = ("plan-a-budget", "large-batches", "from-tf-privacy", "write-a-rule")


@pytest.mark.long("every example")
@pytest.mark.parametrize(
    "page",
    [
        *TUTORIALS,
        ROOT / "docs" / "index.md",
        *(ROOT / "docs" / "how-to" / f"{name}.md" for name in PROGRAMS),
    ],
    ids=lambda page: page.stem,
)
def test_a_tutorial_runs_from_top_to_bottom(page, run_program, tmp_path):
    """Its blocks are one program, and its commands work on what that has written."""
    text = page.read_text(encoding="utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    assert program
    code, output = run_program(program, tmp_path)
    assert code == 0, f"{program}\n{output}"
    for command in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL):
        done = subprocess.run(
            ["sh", "-ec", command],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(),
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_links_of_built_pages_are_followed(tmp_path):
    """A missing page, a missing anchor, another host and inline styles are found."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text('<h1 id="there">a</h1>')
    (tmp_path / "a.html").write_text(
        '<a href="folder/#there">1</a> <a href="folder/#gone">2</a> <a href="b.html">3'
        '</a> <a href="https://example.org/">4</a> <p style="color: red">'
        '<script src="https://example.org/x.js"></script><script>1</script>'
    )
    found = build_docs.problems(tmp_path)
    assert found == [
        'a.html: <p style="color: red"> must be in a file.',
        "a.html: <script> must be in a file.",
        "a.html: https://example.org/x.js is loaded from another host.",
        "a.html: the link folder/#gone leads nowhere.",
        "a.html: the link b.html leads nowhere.",
    ]


UNSEEN = (
    "Mixup", "centred", "duplicated", "repeat(K, 1)", "padded", "loss_reduction",
    "outside the module", "after=", "ReduceLROnPlateau", "`detach` and `attach`",
    "plain attributes",
)  # fmt: skip


def test_the_page_of_refusals_says_what_the_engine_cannot_see():
    text = (ROOT / "docs" / "reference" / "sharp-edges.md").read_text(encoding="utf-8")
    section = text.partition("## What the engine cannot see\n")[2]
    assert [each for each in UNSEEN if each not in section] == []
    assert section.count("\n- **") == section.count("*Instead:*") >= len(UNSEEN)
