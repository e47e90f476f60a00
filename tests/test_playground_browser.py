"""The playground in a real, headless Chromium, with the vocabulary of Llama 3."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import browser
import pytest
from tokenizers_data import llama3

import cdplugin as cd
from cdplugin.playground.server import Server
from cdplugin.playground.service import Playground

pytestmark = pytest.mark.slow
HOSTILE = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if browser.why_not():
        pytest.skip(browser.why_not())
    playground = Playground(cd.Vocabulary.from_tiktoken(llama3().model), "Llama 3")
    with Server(playground) as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.05,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def driver(server: Server) -> Iterator[Any]:
    with browser.chromium() as one:
        yield one


@pytest.fixture
def page(driver: Any, server: Server) -> Any:
    driver.get("about:blank")
    driver.get(server.url)
    browser.settled(driver)
    yield driver
    problems = [line for line in driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
    assert not problems, problems


def of(page: Any, name: str) -> Any:
    return page.find_element("id", name)


def put(page: Any, name: str, text: str) -> None:
    """Replace a field's content as a paste would."""
    script = "const [name, text] = arguments; const f = document.getElementById(name); f.value = text; "
    page.execute_script(script + "f.dispatchEvent(new Event('input', {bubbles: true}))", name, text)
    browser.settled(page)


def test_typing(page: Any, server: Server) -> None:
    put(page, "text", "")
    text = '{"name": "Ada", "age": 36}'
    grammar = server.playground._compiler.compile(cd.JsonSchema(of(page, "spec").get_property("value")))
    for end, character in enumerate(text, 1):
        of(page, "text").send_keys(character)
        browser.settled(page)
        matcher = grammar.matcher()
        tokens = list(server.playground.vocab.encode(text[:end]))
        assert matcher.accept_tokens(tokens) == len(tokens)
        allowed = matcher.trace([], limit=1).steps[0].allowed
        assert of(page, "count").text == f"{allowed:,} tokens"
        assert len(page.find_elements("css selector", "#tokens .token")) == len(tokens)
    assert of(page, "verdict").text == "complete"


def test_a_refusal_is_shown(page: Any) -> None:
    put(page, "text", '{"name": 12}')
    assert of(page, "verdict").text.startswith("refused at token")
    assert "expected one of" in of(page, "refusal").text
    assert page.find_element("css selector", "#tokens .bad").text
    assert "#/properties/name" in of(page, "places").text
    assert not of(page, "forced").is_enabled() and not of(page, "finish").is_enabled()


def test_buttons_insert(page: Any) -> None:
    put(page, "text", '{"name": "Ada", "age": 36, "skills": ["ches')
    of(page, "forced").click()
    browser.settled(page)
    assert of(page, "text").get_property("value").endswith('["chess')
    of(page, "finish").click()
    browser.settled(page)
    value = json.loads(of(page, "text").get_property("value"))
    assert value["name"] == "Ada" and value["skills"] == ["chess"] and of(page, "verdict").text == "complete"


def test_a_wrong_schema_is_shown(page: Any) -> None:
    put(page, "spec", '{"type": "object", "properties": {"a": {"type": "strin"}}}')
    assert "/properties/a" in of(page, "spec-error").text and of(page, "verdict").text == "no grammar"
    put(page, "spec", '{"type": "object"}')
    assert not of(page, "spec-error").is_displayed()


def test_hostile_text_is_text(page: Any) -> None:
    schema = json.dumps({"type": "object", "properties": {HOSTILE: {"const": HOSTILE}}, "required": [HOSTILE]})
    put(page, "spec", schema)
    for text in (HOSTILE, json.dumps({HOSTILE: HOSTILE}), "{" + json.dumps(HOSTILE)[:-3]):
        put(page, "text", text)
    put(page, "spec", '{"type": ' + json.dumps(HOSTILE) + "}")
    assert page.title == "cdplugin playground" and HOSTILE[:12] in of(page, "spec-error").text
    assert not page.find_elements("css selector", "main img, main script")


def test_a_link_carries_the_state(page: Any, server: Server) -> None:
    spec, text = 'start: "ä→😀" /[0-9]+/\n', "ä→😀1"
    page.execute_script("document.getElementById('kind').value = 'lark'")
    put(page, "spec", spec)
    put(page, "text", text)
    link = page.current_url
    assert link.startswith(server.url + "#v1.")
    page.get("about:blank")
    page.get(link)
    browser.settled(page)
    assert (of(page, "kind").get_property("value"), of(page, "spec").get_property("value")) == ("lark", spec)
    assert of(page, "text").get_property("value") == text and of(page, "verdict").text == "complete"
    page.get("about:blank")
    page.get(server.url + "#v1.%%%")
    browser.settled(page)
    assert of(page, "kind").get_property("value") == "json-schema", "a broken link opens the first example"


def test_why_not(page: Any) -> None:
    put(page, "text", '{"name": "Ada", "age": 36, "skills": ["')
    from selenium.webdriver.support.ui import WebDriverWait

    of(page, "what").send_keys("poker\n")
    WebDriverWait(page, 60).until(lambda _: of(page, "reason").is_displayed())
    assert "'c', 'g', 'r'" in of(page, "reason").text


def test_examples_are_legal(page: Any) -> None:
    from selenium.webdriver.support.ui import Select

    names = [option.text for option in Select(of(page, "example")).options][1:]
    assert len(names) == 5
    for name in names:
        Select(of(page, "example")).select_by_visible_text(name)
        browser.settled(page)
        assert of(page, "verdict").text in ("complete", "to be continued") and not of(page, "spec-error").is_displayed(), name


def test_another_page_gets_nothing(driver: Any, server: Server) -> None:
    """A page of another origin (here: about:blank's opaque one) can neither read nor send."""
    driver.get("data:text/html,<title>other</title>")
    script = """
    const [url, done] = arguments;
    const body = JSON.stringify({kind: "regex", spec: "a", text: ""});
    Promise.allSettled([
      fetch(url + "api/info"),
      fetch(url + "api/step", {method: "POST", headers: {"Content-Type": "application/json"}, body}),
      fetch(url + "api/step", {method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body})
        .then((r) => r.type),
    ]).then((all) => done(all.map((one) => one.status === "fulfilled" ? String(one.value) : "refused")));
    """
    assert driver.execute_async_script(script, server.url)[:2] == ["refused", "refused"]
    driver.get_log("browser")
