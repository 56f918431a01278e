"""Static files at addresses that contain their hash, compressed in advance.

Every file of ``static/``, and the scripts and styles in the folders of ``web``, are
served below ``/static/<hash of the whole tree>/`` and plotly.js below
``/static/plotly-<version>/``.  Browsers may cache both forever, since a changed file
has another address.  Relative imports between script modules keep working because
all modules share one hash.  The copies and their ``.br`` and ``.gz`` files are in the
instance folder, so the program's own folder may be read-only.

If `make docs` has built the documentation, its pages are served below ``/docs/`` from
such a copy.  Their addresses do not change, so browsers must revalidate them.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import posixpath
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from wsgiref.headers import Headers

from markupsafe import Markup
from werkzeug.datastructures import Accept
from werkzeug.http import parse_accept_header
from whitenoise import WhiteNoise
from whitenoise.compress import Compressor

from dpsgd_explorer.web.http.compression import ENCODINGS, brotli_of

#: Contains templates/ and static/: this package if installed, else the repository.
FRONT_DIR = next(
    folder
    for folder in Path(__file__).resolve().parents
    if (folder / "templates" / "base.html").is_file()
)
WEB_DIR = Path(__file__).parents[1]
#: Contain one folder per widget, and one per lab.
WIDGETS_DIR = WEB_DIR / "hub" / "widgets"
LABS_DIR = WEB_DIR / "labs"
#: Folders of ``web`` with their own scripts and styles, which are published below js/,
#: as for widgets and labs.
ROOMS = ("classes", "short_course", "teach")
#: Start of an import from static/js, in a script of such a folder.
STATIC_SCRIPTS = re.compile(rb'"(?:\.\./)+static/js/')
#: Address of a static import, which a browser resolves before it runs a module.
STATIC_IMPORT = re.compile(r'(?:\bfrom|^import)\s*"(\.[^"]+)"', re.MULTILINE)
#: Written by ``tools.build_docs``; missing if the documentation was not built.
DOCUMENTATION_DIR = FRONT_DIR / "built_docs"
DOCUMENTATION_URL = "/docs/"
#: Prefix of the published folders of the documentation.
DOCUMENTATION = "docs-"
PLOTLY = "plotly.min.js"
KEPT_TREES = 8
ACCEPT_ENCODING = "HTTP_ACCEPT_ENCODING"


class QuickCompressor(Compressor):  # type: ignore[misc]
    """Compressor for a server start; the best brotli quality would take seconds."""

    compress_brotli = staticmethod(brotli_of)


class Files(WhiteNoise):  # type: ignore[misc]
    """Serves complete files, in an encoding that the client accepts."""

    @staticmethod
    def serve(static_file: Any, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer a request for a static file."""
        # WhiteNoise rejects a range of one byte; a server may ignore ranges.
        environ.pop("HTTP_RANGE", None)
        # WhiteNoise ignores ";q=0", which forbids an encoding.
        accepted = parse_accept_header(environ.pop(ACCEPT_ENCODING, ""), Accept)
        readable = [name for name in ENCODINGS if accepted[name] > 0]
        request = environ | {ACCEPT_ENCODING: ", ".join(readable)}
        return WhiteNoise.serve(static_file, request, start_response)

    def redirect(self, from_url: str, to_url: str) -> Any:
        """Return a redirection, with the headers of every response."""
        redirection = super().redirect(from_url, to_url)
        headers = Headers(redirection.response.headers)
        self.add_headers_function(headers, "", from_url)
        return redirection


@dataclass(frozen=True, kw_only=True)
class Assets:
    """The published files and their folders.

    Attributes:
        shelf: Folder that contains the published folders.
        folders: Published folder of each file, by its name in templates.
        imports: Names of all modules that a script imports, directly or indirectly.
        documentation: Published folder of the documentation, None if it was not built.
    """

    shelf: Path
    folders: Mapping[str, str]
    imports: Mapping[str, tuple[str, ...]]
    documentation: str | None = None

    @property
    def documentation_url(self) -> str | None:
        """Return the address of the documentation, None if it was not built."""
        return DOCUMENTATION_URL if self.documentation else None

    def url(self, name: str) -> str:
        """Return the address of a file, such as ``css/base.css``.

        Raises:
            FileNotFoundError: there is no such file.
        """
        if name not in self.folders:
            raise FileNotFoundError(
                f"there is no static file {name!r}; restart after adding one."
            )
        return f"/static/{self.folders[name]}/{name}"

    def module_script(self, name: str) -> Markup:
        """Return the element that runs a script module, preceded by preload links.

        Without these links a browser discovers an import only after reading the module
        that imports it.  The trainer's imports are four levels deep, so it would wait
        four times.
        """
        links = [
            Markup('<link rel="modulepreload" href="{}">\n').format(self.url(imported))
            for imported in self.imports[name]
        ]
        script = Markup('<script type="module" src="{}"></script>')
        return Markup("").join([*links, script.format(self.url(name))])

    def serve_before(
        self, application: Any, add_headers: Callable[[Headers], None]
    ) -> Files:
        """Return a WSGI application that serves the files before the wrapped one."""
        options: dict[str, Any] = {
            "allow_all_origins": False,
            "add_headers_function": lambda headers, path, url: add_headers(headers),
        }
        if self.documentation:
            # max_age=0: a browser may cache a page, but must revalidate it.
            pages = Files(application, index_file=True, max_age=0, **options)
            pages.add_files(str(self.shelf / self.documentation), DOCUMENTATION_URL)
            application = pages
        static_files = Files(
            application, immutable_file_test=lambda path, url: True, **options
        )
        for folder in sorted(set(self.folders.values())):
            static_files.add_files(str(self.shelf / folder), f"static/{folder}/")
        return static_files


def publish(
    static_dir: Path,
    instance_dir: Path,
    documentation_dir: Path | None = None,
    translate: Callable[[str], str] | None = None,
) -> Assets:
    """Copy and compress files that are not yet published; return their addresses.

    Args:
        static_dir: Folder of the static files.
        instance_dir: The instance folder, which gets the copies.
        documentation_dir: Folder of the documentation's pages.
        translate: Returns a script in another language; None means English.
    """
    files = _files(static_dir) | _files_of_rooms()
    shelf = instance_dir / "assets"
    with tempfile.TemporaryDirectory() as folder:
        if translate:
            files |= _translated(files, Path(folder), translate)
        tree = tree_hash(files)
        _copy_and_compress(files, shelf / tree)
        imports = _all_imports(files)
    plotly = f"plotly-{importlib.metadata.version('plotly')}"
    _copy_and_compress({PLOTLY: plotly_bundle()}, shelf / plotly)
    _delete_old_trees(shelf, "", tree)
    return Assets(
        shelf=shelf,
        folders=dict.fromkeys(files, tree) | {PLOTLY: plotly},
        imports=imports,
        documentation=_publish_documentation(documentation_dir, shelf),
    )


def _translated(
    files: Mapping[str, Path], folder: Path, translate: Callable[[str], str]
) -> dict[str, Path]:
    """Write the scripts in another language; return them by their published names."""
    written = {}
    for name, source in files.items():
        if source.suffix != ".js":
            continue
        written[name] = folder / name
        written[name].parent.mkdir(parents=True, exist_ok=True)
        script = translate(source.read_text(encoding="utf-8"))
        written[name].write_text(script, encoding="utf-8")
    return written


def _publish_documentation(source: Path | None, shelf: Path) -> str | None:
    """Return the name of the published folder; None if there is nothing to publish."""
    if source is None or not (source / "index.html").is_file():
        return None
    files = _files(source)
    name = DOCUMENTATION + tree_hash(files)
    _copy_and_compress(files, shelf / name)
    _delete_old_trees(shelf, DOCUMENTATION, name)
    return name


def _files(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by their relative names, without hidden files."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def _files_of_rooms() -> dict[str, Path]:
    """Return the scripts and styles of all rooms by their published names."""
    folders = {f"js/{room}": WEB_DIR / room for room in ROOMS}
    folders |= {f"js/widgets/{path.name}": path for path in WIDGETS_DIR.glob("*/")}
    folders |= {f"js/labs/{path.name}": path for path in LABS_DIR.glob("*/")}
    return {
        f"{name}/{path.name}": path
        for name, folder in folders.items()
        for pattern in ("*.js", "*.css")
        for path in sorted(folder.glob(pattern))
    }


def _published(name: str, source: Path) -> bytes:
    """Return a file's published content: a script's imports point to static/js."""
    content = source.read_bytes()
    if source.suffix != ".js":
        return content
    up = b"../" * (name.count("/") - 1)  # from the script's folder to js/
    return STATIC_SCRIPTS.sub(b'"' + up, content)


def _all_imports(files: Mapping[str, Path]) -> dict[str, tuple[str, ...]]:
    """Return the direct and indirect imports of each script, nearest first."""
    direct = {
        name: [
            posixpath.normpath(posixpath.join(posixpath.dirname(name), address))
            for address in STATIC_IMPORT.findall(_published(name, path).decode())
        ]
        for name, path in files.items()
        if name.endswith(".js")
    }
    imports: dict[str, tuple[str, ...]] = {}
    for name in direct:
        reached = {name: None}
        for module in (queue := [name]):
            added = [m for m in direct[module] if m in direct and m not in reached]
            reached.update(dict.fromkeys(added))
            queue += added
        imports[name] = tuple(reached)[1:]
    return imports


def tree_hash(files: Mapping[str, Path]) -> str:
    """Return twelve hex digits that depend on all names and contents."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        content = _published(name, path)
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def plotly_bundle() -> Path:
    """Return the path of plotly.js in the installed ``plotly`` package."""
    package = importlib.util.find_spec("plotly")  # without running its code
    if package is None or package.origin is None:
        raise FileNotFoundError(
            "the package plotly is not installed; install requirements.txt."
        )
    return Path(package.origin).parent / "package_data" / PLOTLY


def _copy_and_compress(files: Mapping[str, Path], target: Path) -> None:
    """Create the folder atomically; return if another process has created it."""
    if target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    compressor = QuickCompressor(quiet=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as temporary:
        tree = Path(temporary) / "tree"
        tree.mkdir()
        for name, source in files.items():
            copy = tree / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(_published(name, source))
            if compressor.should_compress(name):
                compressor.compress(str(copy))
        try:
            tree.rename(target)
        except OSError:
            if not target.is_dir():  # another process may have created it meanwhile
                raise


def _delete_old_trees(shelf: Path, prefix: str, current: str) -> None:
    """Delete all but the latest trees; each restart after an edit creates one."""
    trees = [
        path
        for path in shelf.glob(f"{prefix}*")
        if path.name.removeprefix(prefix).isalnum()
    ]
    trees.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in trees[KEPT_TREES:]:
        if path.name != current:
            shutil.rmtree(path, ignore_errors=True)
