"""The rules of docs/explanation/architecture.md, checked on the source itself."""

import ast
import graphlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dpsgd_explorer"
NAME = "dpsgd_explorer"

# layer: the layers below it and the third-party packages that it may name
MAY_IMPORT = {
    "accounting": {"numpy", "scipy"},
    "dp": {"accounting", "cryptography", "numpy", "torch", "triton"},
    "compat": {"dp", "torch"},
    "integrations": {"accounting", "dp", "lightning", "torch", "transformers"},
    "regression": {"accounting", "numpy"},
    "audit": {"accounting", "numpy", "scipy"},
    "experiments": {"accounting", "numpy", "pydantic", "regression"},
    "training": {
        "accounting",
        "audit",
        "dp",
        "experiments",
        "numpy",
        "pooch",
        "regression",
        "safetensors",
        "torch",
    },
    "runs": {"alembic", "experiments", "huey", "psycopg", "redis", "sqlalchemy"},
    "web": {
        "accounting",
        "experiments",
        "brotli",
        "flask",
        "itsdangerous",
        "latex2mathml",
        "jinja2",
        "markupsafe",
        "numpy",
        "plotly",
        "prometheus_client",
        "pydantic",
        "regression",
        "runs",
        "scipy",
        "werkzeug",
        "whitenoise",
    },
    "cli": {
        "accounting",
        "audit",
        "experiments",
        "numpy",
        "regression",
        "runs",
        "server",
        "training",
    },
    "server": {"flask", "gunicorn", "runs", "web"},
}
EVERYONE = {
    "atomic_file",
    "errors",
    "extras",
    "identifiers",
    "logs",
    "machine",
    "operation",
    "privacy_warning",
    "quotas",
    "settings",
    "signatures",
    "validation",
    "__version__",
}
# The one process in which torch is loaded, and what it may import for that.
CHILD = PACKAGE / "runs" / "worker" / "child.py"
CHILD_IMPORTS = {"dp", "training"}
# Run by hand in a checkout, never imported by the site, and not part of the wheel.
RECORDERS = set((PACKAGE / "web").rglob("record.py"))
# Shown by chapters as text or as notebooks, and run by tests only.
CHAPTERS = PACKAGE / "web" / "hub" / "chapters"
LISTINGS = {*CHAPTERS.glob("*/code*.py"), *CHAPTERS.glob("*/exercise.py")}
MOST_MODULES = 20
MOST_LINES = {"*.py": 400, "*.js": 250}
# Alarms, not walls: a file or folder that is clearer whole stands here with its reason.
EXPLAINED: dict[str, str] = {
    "benchmarks/report.py": "one function for each table, all alike",
    "tests/dp/checks/test_shared_draws.py": "one table of draws, read by all its tests",
    "tests/dp/backends/triton/test_steps.py": "all claims on a step",
    "dpsgd_explorer/accounting/exact": "a module for each loss of a step",
    "dpsgd_explorer/accounting/exact/composition.py": "one class, and its limits",
    "dpsgd_explorer/accounting/mechanisms/odometer.py": "one class, and its questions",
    "dpsgd_explorer/accounting/exact/subsampled_gaussian.py": "one loss, derived",
    "dpsgd_explorer/dp/checks/loss/autograd_nodes.py": (
        "every private name of autograd, and all access to them"
    ),
    "dpsgd_explorer/dp/checks/loss/operations.py": "one handler for each operation",
    "dpsgd_explorer/dp/config.py": "each argument, its domain and its message, once",
    "dpsgd_explorer/dp/engine.py": "the public door; a third is help for arguments",
    "dpsgd_explorer/dp/session.py": "one attached run, followed from draw to step",
    "dpsgd_explorer/dp/state.py": "one run, saved and restored as a whole",
    "dpsgd_explorer/experiments/training_config.py": "every setting of a training",
    "dpsgd_explorer/dp/checks/check.py": "one check, its measurements in their order",
    "dpsgd_explorer/dp/checks/controlled_draws.py": "two ways to set what is drawn",
    "dpsgd_explorer/dp/engines/hooks.py": "one engine: what its hooks do, in order",
    "dpsgd_explorer/experiments/vocabulary.py": "one table of settings",
    "dpsgd_explorer/experiments": "a configuration for each kind of run",
    "dpsgd_explorer/runs/store": "the table of runs: one module per kind of change",
    "dpsgd_explorer/runs/store/leases.py": "the writes of workers, all behind a fence",
    "dpsgd_explorer/runs/store/store.py": "one door to the table of runs",
    "dpsgd_explorer/settings.py": "the variables, read and checked in one place",
    "dpsgd_explorer/web/content/glossary.py": "one table of terms",
    "static/js/pages/train.js": "one page: all that it draws follows from one store",
    "tests/web/widgets": "a test for each widget",
    "tests/js/widgets": "one module for each widget",
    "tests/training": "one module for each part of a training run",
    "tests": "one module for each tool and for each promise of the whole tree",
    "tests/accounting/exact/test_accountant.py": "the promises of one class",
    "tests/accounting/core/test_numbers.py": "one call of every public function",
    "tests/dp/loss_cases.py": "one list of honest and dishonest losses",
}
OWN_FOLDERS = ("dpsgd_explorer", "static", "tests", "benchmarks")


def imported(tree):
    """Yield (line, dotted name) of every import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: use an absolute import"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def parts(path):
    """Yield (line, layer or third-party package, dotted name) a file depends on."""
    for line, name in imported(ast.parse(path.read_text(encoding="utf-8"))):
        head, *rest = name.split(".")
        if head == NAME:
            yield line, rest[0], name
        elif head not in sys.stdlib_module_names:
            yield line, head, name


def modules(folder):
    """Return the dotted names of a folder's modules."""
    paths = sorted({*(PACKAGE / folder).rglob("*.py")} - RECORDERS - LISTINGS)
    names = [path.relative_to(ROOT).with_suffix("").as_posix() for path in paths]
    return [name.replace("/", ".").removesuffix(".__init__") for name in names]


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_a_layer_imports_only_what_lies_below(layer):
    files = sorted({*(PACKAGE / layer).rglob("*.py")} - RECORDERS - LISTINGS)
    assert files
    for path in files:
        allowed = MAY_IMPORT[layer] | EVERYONE | {layer}
        if path == CHILD:
            allowed |= CHILD_IMPORTS
        for line, part, name in parts(path):
            where = f"{path.relative_to(ROOT)}:{line}"
            assert part in allowed, f"{where}: {layer} may not import {name}"


def test_no_folder_has_more_modules_than_one_can_survey():
    counts = Counter(
        path.parent.relative_to(ROOT).as_posix()
        for folder in OWN_FOLDERS
        for pattern in MOST_LINES
        for path in (ROOT / folder).rglob(pattern)
    )
    assert counts["static/js/charts"] > 1
    large = {name for name, count in counts.items() if count > MOST_MODULES}
    assert not large - EXPLAINED.keys()


def test_web_and_worker_processes_never_load_torch():
    """Imports everything they consist of in one process, and looks after each."""
    names = [
        *modules("accounting"),
        *modules("audit"),
        *modules("regression"),
        *modules("experiments"),
        *modules("runs"),
        *modules("web"),
        *modules("server"),
        f"{NAME}.cli.main",
    ]
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    if 'torch' in sys.modules: sys.exit(f'{name} loads torch')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *names], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


def test_a_first_page_waits_for_no_module_that_it_does_not_need(tmp_path):
    """Together they took as long to load as all that it needs."""
    code = (
        "import sys\n"
        "from dpsgd_explorer.web import create_app\n"
        "page = create_app().test_client().get('/train/')\n"
        "needless = {'scipy.stats', 'scipy.optimize', 'huey', 'psycopg', 'redis'}\n"
        "print(page.status_code, sorted(needless & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"DPSGD_INSTANCE_DIR": str(tmp_path)},
    )
    assert done.stdout.strip() == "200 []", done.stdout + done.stderr


def test_accounting_needs_nothing_but_numpy_and_scipy():
    code = (
        "import sys, dpsgd_explorer.accounting\n"
        "sys.exit(str({'flask', 'pydantic', 'torch'} & set(sys.modules) or ''))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stderr.strip() == ""


def test_the_audit_waits_for_neither_torch_nor_statistics():
    """``dpsgd verify`` takes a third of a second; ``scipy.stats`` alone takes one."""
    code = (
        "import sys, dpsgd_explorer.audit\n"
        "sys.exit(str({'pydantic', 'scipy.stats', 'torch'} & set(sys.modules) or ''))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stderr.strip() == ""


def files_imported_by(path):
    """Return the modules of the package that a file imports, by their files."""
    found = set()
    for _, name in imported(ast.parse(path.read_text(encoding="utf-8"))):
        while name.startswith(f"{NAME}."):
            base = ROOT / name.replace(".", "/")
            candidates = (base.with_suffix(".py"), base / "__init__.py")
            if file := next((file for file in candidates if file.is_file()), None):
                found.add(file)
                break
            name = name.rpartition(".")[0]
    return found - {path}


@pytest.fixture(scope="module")
def imports():
    """File to files, without the top-level modules that everyone may name."""
    return {
        path: {file for file in files_imported_by(path) if file.parent != PACKAGE}
        for path in PACKAGE.rglob("*.py")
    }


def test_nothing_imports_a_recorder_or_a_listing(imports):
    assert RECORDERS
    assert LISTINGS
    never = RECORDERS | LISTINGS
    assert [path for path, files in imports.items() if files & never] == []


def circle_in(graph):
    """Return the nodes of one circle, in order; nothing where there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [str(node.relative_to(PACKAGE)) for node in error.args[1]]
    return []


def test_no_files_import_each_other_in_a_circle(imports):
    assert circle_in(imports) == []


def test_no_folders_import_each_other_in_a_circle(imports):
    """A folder is its own modules: ``__init__`` shows the outside what lies below."""
    folders = {}
    for path, files in imports.items():
        if path.name != "__init__.py":
            folders.setdefault(path.parent, set()).update(
                file.parent
                for file in files
                if file.name != "__init__.py" and file.parent != path.parent
            )
    assert circle_in(folders) == []


def test_the_exact_accountant_does_not_know_the_others(imports):
    """The registry lists it among them, so it would wait for itself."""
    registry = PACKAGE / "accounting" / "registry.py"
    exact = (PACKAGE / "accounting" / "exact").glob("*.py")
    assert [path.name for path in exact if registry in imports[path]] == []


def test_every_package_is_a_layer():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == set(MAY_IMPORT)


def test_the_table_in_the_docs_names_every_layer():
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(
        encoding="utf-8"
    )
    assert [layer for layer in MAY_IMPORT if f"\n| `{layer}` |" not in text] == []


def test_environment_variables_are_read_in_one_place():
    readers = {
        path.name
        for path in PACKAGE.rglob("*.py")
        if any(
            word in path.read_text(encoding="utf-8")
            for word in ("environ[", "getenv(", "environ.get(")
        )
    }
    assert readers <= {"settings.py"}


@pytest.mark.parametrize("pattern", MOST_LINES)
def test_no_file_outgrows_its_reader(pattern):
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text("utf-8").splitlines())
        for folder in OWN_FOLDERS
        for path in (ROOT / folder).rglob(pattern)
    }
    assert lengths
    long = {name for name, count in lengths.items() if count > MOST_LINES[pattern]}
    assert not long - EXPLAINED.keys(), "shorten these, or explain them in EXPLAINED"
