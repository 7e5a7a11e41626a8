"""The page of a coded note in a browser: pointing, keys and clicks highlight evidence; a note is only ever shown."""

import pytest

from hf_labelattn.inference.evidence import Evidence
from hf_labelattn.inference.html import write_page
from hf_labelattn.inference.prediction import Prediction

from ..browser import browser, marked, requested_addresses  # noqa: F401  (a fixture)

ATTACK = "<script>document.title = 'run'</script><img src=x onerror=\"document.title='run'\">"
NOTE = f"Fever and cough.\n{ATTACK}\nHome today."
PREDICTIONS = [Prediction("R50.9", 0.91), Prediction("R05", 0.5), Prediction("Z00", 0.1)]


def span(text: str, weight: float) -> Evidence:
    start = NOTE.index(text)
    return Evidence(start, start + len(text), text, weight)


EVIDENCE = {"R50.9": [span("Fever and cough", 0.7), span("today", 0.1)], "R05": [span("cough", 0.4)], "Z00": []}


@pytest.fixture
def page(browser, tmp_path):  # noqa: F811
    path = write_page(tmp_path / "note.html", NOTE, PREDICTIONS, EVIDENCE, {"R05": "Cough"}, title="A note")
    browser.get(path.as_uri())
    return browser


def keys(page, *names: str) -> None:
    from selenium.webdriver import ActionChains, Keys

    for name in names:
        ActionChains(page).send_keys(getattr(Keys, name)).perform()


def codes(page) -> list:
    return page.find_elements("css selector", "nav button")


def status(page) -> str:
    return page.find_element("id", "status").text


def test_pointing_at_a_code_shows_its_evidence_until_one_points_away(page):
    from selenium.webdriver import ActionChains

    assert marked(page) == []
    ActionChains(page).move_to_element(codes(page)[1]).perform()
    assert marked(page) == ["cough"]
    ActionChains(page).move_to_element(codes(page)[0]).perform()
    assert marked(page) == ["Fever and ", "cough", "today"]
    ActionChains(page).move_to_element(page.find_element("tag name", "h1")).perform()
    assert marked(page) == [] and "Point at a code" in status(page)


def test_a_clicked_code_stays_and_its_heaviest_passage_is_the_strongest(page):
    from selenium.webdriver import ActionChains

    codes(page)[0].click()
    ActionChains(page).move_to_element(page.find_element("tag name", "h1")).perform()
    assert marked(page) == ["Fever and ", "cough", "today"]
    assert status(page) == "R50.9: “Fever and cough”, “today”"
    colours = [m.value_of_css_property("background-color") for m in page.find_elements("css selector", "mark.on")]
    strengths = [float(colour.rstrip(")").rpartition(",")[2]) for colour in colours]
    assert strengths[0] == strengths[1] > strengths[2] > 0
    codes(page)[0].click()
    assert codes(page)[0].get_attribute("aria-pressed") == "false" and "Point at a code" in status(page)


def test_the_keyboard_is_enough(page):
    keys(page, "TAB")
    assert page.switch_to.active_element == codes(page)[0] and marked(page) == ["Fever and ", "cough", "today"]
    keys(page, "ARROW_DOWN")
    assert page.switch_to.active_element == codes(page)[1] and marked(page) == ["cough"]
    keys(page, "ENTER")
    assert codes(page)[1].get_attribute("aria-pressed") == "true" and status(page) == "R05: “cough”"
    keys(page, "ARROW_DOWN", "ARROW_DOWN")  # the last code is where it ends
    assert page.switch_to.active_element == codes(page)[2] and marked(page) == []
    keys(page, "ESCAPE")
    assert codes(page)[1].get_attribute("aria-pressed") == "false"


def test_a_marked_passage_leads_to_its_code(page):
    page.find_elements("css selector", "mark")[-1].click()
    assert codes(page)[0].get_attribute("aria-pressed") == "true"


def test_a_script_in_the_note_is_shown_and_not_run(page):
    assert page.title == "A note"
    assert page.find_element("id", "note").text == NOTE
    assert not page.find_elements("css selector", "#note script, #note img")
    assert not [address for address in requested_addresses(page) if address.startswith(("http", "ws"))]
    assert not [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]
