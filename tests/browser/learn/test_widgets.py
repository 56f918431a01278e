"""Widgets in a browser: by keyboard and by pointer, and where their script fails."""

import re
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.web.hub.widgets.noise_to_signal import widget as noise_to_signal
from tests.browser.trainer import focus, unfold


@pytest.mark.long("more journeys")
def test_the_odd_record_is_guessed_moved_and_put_back(open_page):
    page = open_page("/learn/sgd-basics/")
    figure = page.locator("#one-odd-record")
    expect(figure).to_be_hidden()
    page.get_by_label("Its slope with that record").fill("0.9")
    page.get_by_label("How many times longer").fill("8")
    page.get_by_role("button", name="Show the picture").click()
    expect(page.get_by_text("You said 0.9; it is 0.64.").first).to_be_visible()
    expect(figure.get_by_text("your 0.90")).to_be_visible()
    title = figure.get_by_role("heading", level=3)
    expect(title).to_have_text("One record moves the slope from 1.04 to 0.64")
    grip = figure.get_by_role("slider", name="The odd record")
    focus(grip)
    for _ in range(7):
        page.keyboard.press("Shift+ArrowUp")
    expect(title).to_have_text(re.compile("Here it leaves|from 1.04 to 1.0"))
    expect(figure.get_by_text("like any other record")).to_be_visible()
    figure.get_by_role("button", name="Put it back").click()
    expect(title).to_contain_text("to 0.64")
    place = grip.locator(".handle").bounding_box()
    page.mouse.move(place["x"] + 9, place["y"] + 9)
    page.mouse.down()
    page.mouse.move(place["x"] + 9, place["y"] - 60, steps=3)
    page.mouse.up()
    expect(title).not_to_contain_text("to 0.64")


@pytest.mark.long("more journeys")
def test_a_guess_waits_for_a_script_that_comes_late(open_page):
    page = open_page("/glossary/", new_visitor=True)
    late = []
    page.route("**/one_odd_record/widget.js", lambda route: late.append(route))
    page.goto(page.url.replace("/glossary/", "/learn/sgd-basics/"))
    page.get_by_label("Its slope with that record").fill("0.9")
    page.get_by_label("How many times longer").fill("8")
    page.get_by_role("button", name="Show the picture").click()
    figure = page.locator("#one-odd-record")
    expect(figure.locator("[data-still] svg:visible")).to_have_count(1)
    late[0].continue_()
    expect(figure.get_by_text("your 0.90")).to_be_visible()


@pytest.mark.long("more journeys")
def test_a_link_to_a_guessed_picture_shows_it_and_so_does_a_page_without_script(
    open_page,
):
    page = open_page("/learn/sgd-basics/#one-odd-record")
    expect(page.locator("#one-odd-record")).to_be_visible()
    page = open_page("/learn/sgd-basics/", java_script_enabled=False)
    figure = page.locator("#one-odd-record")
    expect(figure.locator("svg:visible")).to_have_count(1)
    expect(figure.get_by_text("Interaction needs JavaScript")).to_be_visible()
    expect(page.locator(".predict-question")).to_be_hidden()


@pytest.mark.long("more journeys")
def test_a_widget_whose_script_does_not_come_says_so_and_keeps_its_picture(open_page):
    page = open_page(
        "/embed/microscope/", new_visitor=True, expected=["Failed to", "ERR_FAILED"]
    )
    page.route("**/js/widgets/*/widget.js", lambda route: route.abort())
    page.goto(page.url.replace("microscope", "one-odd-record"))
    expect(page.get_by_text("The moving version does not work")).to_be_visible()
    expect(page.locator("[data-still] svg:visible")).to_have_count(1)
    page.goto(page.url.split("/embed/")[0] + "/learn/sgd-basics/")
    page.get_by_role("button", name="Skip the guess").click()
    figure = page.locator("#one-odd-record")
    expect(figure.get_by_text("The moving version does not work")).to_be_visible()
    expect(figure.locator("[data-still] svg:visible")).to_have_count(1)
    expect(page.get_by_role("heading", name="Two changes")).to_be_visible()


@pytest.mark.long("more journeys")
def test_a_widget_that_breaks_while_it_moves_gives_its_picture_back(open_page):
    page = open_page("/embed/microscope/", new_visitor=True, expected=["broken"])
    page.route(
        "**/two_worlds/limit.js",
        lambda route: route.fulfill(
            content_type="text/javascript",
            body='export const mostHits = () => { throw Error("broken"); };'
            "export const placeAbove = mostHits;",
        ),
    )
    page.goto(page.url.replace("microscope", "two-worlds"))
    expect(page.get_by_text("The moving version does not work")).to_be_visible()
    expect(page.locator("[data-still] svg:visible")).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_contain_text("any attack at most (")


@pytest.fixture
def lesson(tmp_path, address):
    """A page of another site that frames a widget; its address."""
    head = '<title>A lesson</title><link rel="icon" href="data:,">'
    frame = f'<iframe src="{address}/embed/one-odd-record/">'
    (tmp_path / "lesson.html").write_text(head + frame)
    handler = partial(QuietHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.mark.long("more journeys")
def test_a_widget_alone_runs_in_a_frame_of_another_site(lesson, open_page):
    page = open_page("/lesson.html", at=lesson)  # closed before its site is
    frame = page.frame_locator("iframe")
    heading = frame.get_by_role("heading", level=1)
    expect(heading).to_have_text("One record moves the slope from 1.04 to 0.64")


@pytest.mark.long("more journeys")
def test_a_finger_drags_the_record_and_not_the_page(open_page):
    page = open_page("/embed/one-odd-record/", size=(390, 700), has_touch=True)
    record = page.get_by_role("slider", name="The odd record")
    expect(record).to_be_visible()
    place = record.locator(".handle").bounding_box()
    touch = partial(page.context.new_cdp_session(page).send, "Input.dispatchTouchEvent")
    at = {"x": place["x"] + 9, "y": place["y"] + 9}
    touch({"type": "touchStart", "touchPoints": [at]})
    for _ in range(8):
        at = {"x": at["x"] - 4, "y": at["y"] - 12}
        touch({"type": "touchMove", "touchPoints": [at]})
        page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")
    touch({"type": "touchEnd", "touchPoints": []})
    end = record.locator(".handle").bounding_box()
    assert abs(end["x"] + 9 - at["x"]) < 6
    assert abs(end["y"] + 9 - at["y"]) < 6
    assert page.evaluate("() => scrollY") == 0


def test_a_step_is_gone_through_under_the_microscope(open_page):
    low = (1280, 620)  # px; in a higher window, the text selects the sub-steps
    page = open_page("/learn/dpsgd-intro/", size=low, reduced_motion="reduce")
    question = page.locator("#microscope-guess")
    question.get_by_label("By how many degrees").fill("30")
    question.get_by_role("radio", name="a few").check()
    question.get_by_role("button", name="Show the picture").click()
    figure = page.locator("#microscope")
    title = figure.get_by_role("heading", level=3)
    figure.locator("[data-step]").last.scroll_into_view_if_needed()
    expect(title).to_contain_text("Clipping turns the step by 18°")  # played to its end
    figure.locator('[data-step="sample"]').click()
    expect(title).to_have_text("13 of 24 records take part in this step")
    following = figure.get_by_role("button", name="Next sub-step")
    lit = figure.locator(".formula .on")
    for term in ("compute", "clip", "sum", "noise"):
        following.click()
        expect(lit).to_have_attribute("data-term", term)
    expect(title).to_contain_text("Clipping turns the step by 18°")
    figure.get_by_text("Formula, lengths, single records").click()
    expect(figure.get_by_text("you: 30°")).to_be_visible()
    before = title.inner_text()
    figure.get_by_role("button", name="Draw new noise").click()
    expect(title).not_to_have_text(before)
    following.click()
    length = figure.locator('[data-part="clipped-length"]').inner_text()
    grip = figure.locator('[data-part="arrows"] .grip')
    focus(grip)
    page.keyboard.press("Shift+ArrowDown")
    expect(grip).to_have_attribute("aria-valuetext", "C = 0.71")
    expect(figure.locator('[data-part="clipped-length"]')).not_to_have_text(length)
    expect(figure.get_by_text("Record 24, the odd one")).to_be_visible()
    figure.get_by_role("button", name="Previous record").click()
    expect(figure.get_by_text("Record 23, x = 0.96")).to_be_visible()
    following.click()
    expect(title).to_contain_text("The line moves")
    figure.get_by_role("button", name="Start again").click()
    expect(title).to_contain_text("records take part in this step")

    figure.get_by_role("radio", name="A real network").check()
    expect(title).to_contain_text("226 of 524 gradients are cut")
    figure.get_by_text("About", exact=True).click()
    expect(figure.locator("[data-live] .badge.not-private:visible")).to_have_count(1)
    grip = figure.get_by_role("slider", name="Clipping bound C of the network")
    focus(grip)
    page.keyboard.press("Shift+ArrowUp")
    expect(grip).to_have_attribute("aria-valuenow", "0.2")
    expect(title).not_to_contain_text("226 of 524")
    expect(figure.get_by_text("ε is the same with every C")).to_be_visible()
    figure.get_by_role("radio", name="24 records").check()
    expect(title).to_contain_text("records take part in this step")


@pytest.mark.long("more journeys")
def test_a_bound_is_dragged_over_the_lengths_of_a_recorded_run(open_page):
    page = open_page("/learn/parameters/")
    page.get_by_role("radio", name="the same", exact=True).check()
    page.get_by_label("By how many degrees does clipping turn").fill("20")
    page.get_by_role("button", name="Show the picture").click()
    expect(page.get_by_text("You said 20°; it is 54°.").first).to_be_visible()
    figure = page.locator("#clip-histogram")
    expect(figure.get_by_text("you: 20°")).to_be_visible()
    title = figure.get_by_role("heading", level=3)
    expect(title).to_contain_text("At C = 0.1, 67 % of the gradients of step 35")
    grip = figure.get_by_role("slider", name="Clipping bound C")
    focus(grip)
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    expect(grip).to_have_attribute("aria-valuetext", "C = 100")
    figure.get_by_text("About", exact=True).click()
    expect(figure.get_by_text("None is cut: no bias.")).to_be_visible()
    expect(figure.get_by_text("ε = 3.00 at every C")).to_be_visible()
    grip.scroll_into_view_if_needed()
    place = grip.locator(".handle").bounding_box()
    page.mouse.move(place["x"] + 9, place["y"] + 9)
    page.mouse.down()
    page.mouse.move(place["x"] - 1000, place["y"] + 40, steps=3)
    page.mouse.up()
    expect(grip).to_have_attribute("aria-valuetext", "C = 0.01")
    expect(figure.get_by_text("uphill for this batch")).to_be_visible()
    figure.get_by_role("radio", name="1", exact=True).check()
    expect(figure.get_by_text("All are cut")).to_be_visible()
    expect(figure.get_by_text("you: 20°")).to_have_count(0)  # of another step


@pytest.mark.long("more journeys")
def test_a_larger_batch_calms_the_update_and_hardly_the_run(open_page):
    [needed] = [
        p["sigma"] for p in noise_to_signal.data()["points"] if p["batch"] == 2048
    ]
    page = open_page("/embed/noise-to-signal/")
    title = page.get_by_role("heading", level=1)
    expect(title).to_contain_text("A batch of 256 leaves 31 %")
    slider = page.get_by_role("slider", name="Expected batch size")
    focus(slider)
    page.keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "60,000")
    expect(page.get_by_text("no larger batch is left")).to_be_visible()
    expect(title).to_contain_text("33 % of the noise over the run")
    place = slider.bounding_box()
    middle = place["y"] + place["height"] / 2
    page.mouse.click(place["x"] + place["width"] / 2, middle)
    expect(title).to_contain_text("A batch of 2,048 leaves")
    page.get_by_text("About", exact=True).click()
    expect(page.locator('[data-part="sigma"]')).to_have_text(needed)


@pytest.mark.long("more journeys")
def test_a_link_that_a_teacher_built_starts_where_it_says(open_page):
    page = open_page("/teach/?for=two-worlds#build")
    page.get_by_label("Noise multiplier σ starts at").select_option("2")
    page.get_by_label("Clipping bound C starts at").fill("0.5")
    page.get_by_label("The attacker’s threshold starts at").fill("-5")
    page.get_by_label("Noise multiplier σ: locked").check()
    page.get_by_role("button", name="Build the link").click()
    page.get_by_role("link", name="Open the link").click()
    figure = page.locator("#two-worlds")
    expect(figure).to_have_attribute("data-state", "moves")
    noise = figure.get_by_role("slider", name="Noise multiplier")
    expect(noise).to_be_disabled()
    expect(noise).to_have_attribute("aria-valuetext", re.compile("^2.00; "))
    expect(figure.locator('[data-part="bound-words"]')).to_have_text("0.50")
    expect(figure.locator('[data-part="sub"]')).to_contain_text("σ = 2")
    grip = figure.get_by_role("slider", name="The attacker’s threshold")
    expect(grip).to_have_attribute("aria-valuenow", "-5.0")
    expect(figure.locator('[data-part="hits-0"]')).to_have_text("200 of 200")
    home = page.url.split("/embed/")[0]
    page.goto(f"{home}/embed/one-odd-record/?record=0.5,3&lock=record")
    grip = page.get_by_role("slider", name="The odd record")
    expect(grip).to_have_attribute("aria-valuetext", re.compile("x 0.50, y 3.00"))


@pytest.mark.long("more journeys")
def test_what_a_link_locks_or_hides_stays_as_it_is(open_page):
    address = "/embed/two-worlds/?hide=bound&lock=noise,threshold"
    page = open_page(address)
    figure = page.locator("#two-worlds")
    expect(figure.get_by_role("slider", name="Noise multiplier")).to_be_disabled()
    bound = figure.get_by_role("slider", name="Clipping bound", include_hidden=True)
    expect(bound).to_be_hidden()
    grip = figure.locator('[data-part="scores"] .grip')
    expect(grip).to_have_attribute("aria-disabled", "true")
    value = grip.get_attribute("aria-valuenow")
    place = grip.locator(".handle").bounding_box()
    page.mouse.move(place["x"] + 9, place["y"] + 9)
    page.mouse.down()
    page.mouse.move(place["x"] + 90, place["y"] + 9, steps=3)
    page.mouse.up()
    figure.get_by_role("button", name="Record 24", exact=True).click()
    record = figure.get_by_role("slider", name="The odd record")
    focus(record)
    page.keyboard.press("Shift+ArrowUp")
    expect(record).to_have_attribute("aria-valuenow", "-1.5")
    assert grip.get_attribute("aria-valuenow") == value
    expect(figure.get_by_text("drag me")).to_have_count(1)
    page.goto(page.url.split("?")[0] + "?lock=record")
    figure.get_by_role("button", name="Record 24", exact=True).click()
    expect(record).to_have_attribute("aria-disabled", "true")
    expect(figure.locator('[data-part="records"] path.line').first).to_be_visible()
    expect(figure.get_by_text("drag me")).to_have_count(0)
    page.goto(page.url.split("/embed/")[0] + "/train/?lock=seed&hide=fix")
    unfold(page)
    page.get_by_label("Learning rate", exact=False).first.fill("5")
    expect(page).to_have_url(re.compile(r"learning_rate=5.*&hide=fix&lock=seed$"))
    expect(page.locator("#seed")).to_have_value("7")
    expect(page.get_by_role("radio", name="noise σ")).to_have_count(0)
