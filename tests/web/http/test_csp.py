"""The content security policy against plotly.js, in source and in a browser."""

import base64
import hashlib
import re

import pytest

from dpsgd_explorer.web.http.assets import PLOTLY, plotly_bundle
from dpsgd_explorer.web.http.headers import EMPTY_STYLE, PLOTLY_MAP_STYLE
from tests.in_process import served

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  violations.push(`${event.effectiveDirective} ${event.blockedURI}`);
});
"""
DRAW = """async () => {
  const chart = document.getElementById("chart");
  const x = [...Array(1000).keys()];
  const traces = (shift) => [
    {type: "scatter", mode: "lines+markers", x, y: x.map((i) => Math.sin(i + shift))},
    {type: "bar", x: [10, 20, 30], y: [1, 2, 1], width: [5, 5, 5]},
  ];
  const layout = {
    shapes: [{type: "line", x0: 20, x1: 20, yref: "paper", y0: 0, y1: 1}],
    annotations: [{x: 20, y: 1, text: "ε = 3<br>spent", font: {weight: 700}}],
    legend: {orientation: "h"},
  };
  await Plotly.newPlot(chart, traces(0), layout, {responsive: true});
  for (let i = 1; i < 5; i += 1) await Plotly.react(chart, traces(i), layout);
  Plotly.Fx.hover(chart, [{curveNumber: 0, pointNumber: 500}]);
  const png = await Plotly.toImage(chart, {format: "png", width: 300, height: 200});
  const svg = await Plotly.toImage(chart, {format: "svg", width: 300, height: 200});
  const bars = chart.querySelectorAll(".bars path").length;
  const lines = chart.querySelectorAll(".scatterlayer path.js-line").length;
  await new Promise((done) => setTimeout(done, 50));
  return {png: png.slice(0, 22), svg: svg.slice(0, 18), bars, lines, violations};
}"""


@pytest.fixture
def page(browser):
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    page.add_init_script(WATCH)
    page.messages = []
    page.on("console", lambda message: page.messages.append(message.text))
    yield page
    context.close()


@pytest.fixture
def app(make_app):
    return make_app()


@pytest.fixture
def address(app):
    """The application with one more page: a chart's place and plotly.js."""
    source = app.jinja_env.globals["static_url"](PLOTLY)
    icon = '<link rel="icon" href="data:,">'
    html = f'<!doctype html><title>x</title>{icon}<div id="chart"></div>'
    script = f'<script src="{source}"></script>'
    app.add_url_rule("/chart", "chart", lambda: html + script)
    with served(app) as address:
        yield f"{address}/chart"


def test_the_hashes_are_those_of_the_pinned_bundle():
    source = plotly_bundle().read_text(encoding="utf-8")
    made = source.count('createElement("style")')
    texts = re.findall(
        r"createElement\(\"style\"\).{0,120}?textContent='([^']*)'", source
    )
    empty = source.count('createTextNode("")),document.head.appendChild')
    assert (made, len(texts), empty) == (2, 1, 1)
    assert "\\" not in texts[0]  # else the literal is not the text
    assert [sha256(""), sha256(texts[0])] == [EMPTY_STYLE, PLOTLY_MAP_STYLE]


@pytest.mark.browser
def test_charts_draw_and_export_without_a_violation(page, address):
    page.goto(address)
    drawn = page.evaluate(DRAW)
    assert drawn == {
        "png": "data:image/png;base64,",
        "svg": "data:image/svg+xml",
        "bars": 3,
        "lines": 1,
        "violations": [],
    }
    assert page.messages == []
    with page.expect_download() as download:
        page.evaluate("() => Plotly.downloadImage('chart', {format: 'png'})")
    assert download.value.suggested_filename.endswith(".png")
    assert page.evaluate("violations") == []


@pytest.mark.browser
def test_the_browser_asks_for_exactly_these_hashes(app, page, address):
    """Without them the browser names what it keeps out: these two and no more."""

    def strict(response):
        policy = response.headers["Content-Security-Policy"]
        bare = policy.replace(EMPTY_STYLE, "").replace(PLOTLY_MAP_STYLE, "")
        response.headers["Content-Security-Policy"] = bare
        return response

    app.after_request_funcs[None].insert(0, strict)  # the first is called last
    page.goto(address)
    assert page.evaluate(DRAW)["violations"] == ["style-src-elem inline"] * 2
    asked = set(re.findall(r"'sha256-[^']+'", " ".join(page.messages)))
    assert asked == {EMPTY_STYLE, PLOTLY_MAP_STYLE}


@pytest.mark.browser
def test_marked_up_chart_text_is_kept_out(page, address):
    """Plotly writes these as style attributes: our charts set font.weight instead."""
    page.goto(address)
    for text in ["<b>C</b>", "10<sup>3</sup>", "x<sub>t</sub>"]:
        page.evaluate("() => { violations = []; }")
        annotation = {"x": 1, "y": 1, "text": text}
        page.evaluate(
            "text => Plotly.newPlot('chart', [], {annotations: [text]})", annotation
        )
        assert set(page.evaluate("violations")) == {"style-src-attr inline"}, text


@pytest.mark.browser
def test_inline_script_and_eval_are_kept_out(page, address):
    page.goto(address)
    page.evaluate("""() => {
      const script = document.createElement("script");
      script.textContent = "window.broken = true";
      document.body.append(script);
    }""")
    assert page.evaluate("window.broken") is None
    assert page.evaluate("violations") == ["script-src-elem inline"]


def sha256(text):
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
