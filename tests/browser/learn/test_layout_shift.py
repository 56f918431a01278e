"""Pages hold still while they arrive and their scripts take over."""

import pytest

MOST = 0.05  # of the viewport, summed over all shifts; nobody presses a key
SHIFTS = """() => new Promise((done) => {
  let moved = 0;
  new PerformanceObserver((list) => {
    for (const shift of list.getEntries()) moved += shift.value;
  }).observe({type: "layout-shift", buffered: true});
  setTimeout(() => done(moved), 300);
})"""


@pytest.mark.long("every page")
@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("/learn/dp-concepts/", (390, 844)),
        ("/learn/sgd-basics/", (1280, 1080)),
        ("/learn/privacy-accounting/", (1280, 1080)),
        ("/learn/short/", (1920, 1080)),
        ("/train/", (390, 844)),
        ("/train/", (1280, 800)),
        ("/labs/correlated-noise/", (390, 844)),
        ("/labs/correlated-noise/", (1280, 800)),
        ("/labs/reconstruct/", (1280, 800)),
    ],
)
def test_nothing_jumps_when_the_scripts_arrive(open_page, path, size):
    page = open_page(path, size=size)
    page.wait_for_function(
        "() => !document.querySelector('[data-widget]:not([data-state])')"
    )
    page.wait_for_load_state("networkidle")
    assert page.evaluate(SHIFTS) <= MOST
