"""The documentation as `make docs` builds it, on the website, in a browser.

Every page is looked at in both colour schemes, on a wide and on a narrow screen; the
search finds words without another host.
"""

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

from dpsgd_explorer.settings import Settings
from dpsgd_explorer.web import create_app
from dpsgd_explorer.web.http import assets
from tests.in_process import served

pytestmark = [pytest.mark.browser, pytest.mark.long("every page")]
ROOT = Path(__file__).resolve().parents[3]
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  violations.push(`${event.effectiveDirective} ${event.blockedURI}`);
});
"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALL = """
[...document.querySelectorAll("button, input, .site-link")].filter((control) => {
  const { width, height } = control.getBoundingClientRect();
  return width && height && control.type !== "checkbox" && Math.min(width, height) < 24;
}).map((control) => control.outerHTML)"""
FOUND = "#search-results li a"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What the command builds; it fails on a warning and on a link to nowhere."""
    folder = tmp_path_factory.mktemp("docs") / "built_docs"
    done = subprocess.run(
        [sys.executable, "-m", "tools.build_docs", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def address(built, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assets, "DOCUMENTATION_DIR", built)
        folder = str(tmp_path_factory.mktemp("instance"))
        app = create_app(Settings.from_environment({"DPSGD_INSTANCE_DIR": folder}))
    with served(app) as address:
        yield f"{address}/docs/"
    app.extensions["run_store"].database.close()
    app.extensions["doorbell"].huey.storage.close()


@pytest.fixture(params=["light", "dark"])
def page(request, browser):
    context = browser.new_context(color_scheme=request.param)
    page = context.new_page()
    page.add_init_script(WATCH)
    page.faults = []
    page.on(
        "console",
        lambda message: (
            message.type in ("error", "warning") and page.faults.append(message.text)
        ),
    )
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on(
        "request",
        lambda asked: (
            urlsplit(asked.url).hostname != "127.0.0.1"
            and page.faults.append(asked.url)
        ),
    )
    yield page
    assert page.faults == []
    context.close()


def test_every_page_fits_and_breaks_no_rule_of_the_policy(page, address, built):
    names = [path.relative_to(built).as_posix() for path in built.rglob("*.html")]
    assert len(names) > 40
    for name in sorted(names):
        page.goto(address + name)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate(OVERFLOW) <= 0, f"{name} is wider than {width} px"
        assert page.evaluate("violations") == [], name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "tutorials/first-private-model.html",
        "explanation/math.html",
        "reference/api/dp.html",
        "reference/cli.html",
        "search.html?q=receipt",
    ],
)
@pytest.mark.parametrize("width", [390, 1280])
def test_a_screen_reader_can_use_the_page(page, address, name, width):
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(address + name)
    if "?q=" in name:
        page.locator(FOUND).first.wait_for()
    assert page.evaluate(SMALL) == []
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["target"]) for each in found] == []


def test_the_search_finds_a_word_of_the_tutorial(page, address):
    page.goto(address)
    page.get_by_placeholder("Search").first.fill("patients")
    page.keyboard.press("Enter")
    page.locator(FOUND).first.wait_for()
    titles = page.locator(FOUND).all_inner_texts()
    assert "Your first private model in 15 minutes" in titles
    page.locator(FOUND).first.click()
    page.wait_for_url("**/first-private-model.html*")
    page.locator(".highlighted").first.wait_for()
    assert page.evaluate("violations") == []


def test_the_theme_can_be_chosen_and_is_remembered(page, address):
    page.goto(address)
    before = page.evaluate("document.body.dataset.theme")
    page.locator("button.theme-toggle:visible").first.click()
    after = page.evaluate("document.body.dataset.theme")
    assert (before, after != before) == ("auto", True)
    page.reload()
    assert page.evaluate("document.body.dataset.theme") == after


def test_the_sidebar_leads_to_the_website(page, address):
    page.goto(address + "reference/cli.html")
    page.get_by_role("link", name="Back to the website").click()
    page.wait_for_url(address.removesuffix("docs/"))
    assert page.evaluate("violations") == []


def test_pages_in_a_folder_lead_to_no_website(browser, built):
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((built / "reference" / "cli.html").as_uri())
    assert page.locator(".site-link").count() == 1
    assert not page.locator(".site-link").is_visible()
    assert errors == []
    page.close()
