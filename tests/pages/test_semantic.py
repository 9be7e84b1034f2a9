"""The semantic cache on the page of caches: the real sentence encoder, in front of a scripted upstream."""

import json
import os
import re
import urllib.request

from conftest import REPOSITORY
from playwright.sync_api import expect
from scripted import FAKE, control

#: The route with which the server's own tests try the semantic cache: it serves after two labels without an error.
ROUTE = REPOSITORY / "crates" / "app" / "tapri" / "tests" / "semantic.toml"


def test_a_semantic_cache_that_holds_something(serve, window, look_at, tmp_path):
    config = tmp_path / "tapri.toml"
    route = ROUTE.read_text().replace("ENCODER", os.environ["TAPRI_TEST_ENCODER"])
    config.write_text(route.replace("URL0", f"{FAKE}/v1"))
    server = serve("--config", str(config))
    control("PUT", "/__script", {"default": {"text": "In the settings."}})
    page = window()
    page.goto(f"{server.url}/cache")
    cache = page.locator("section", has=page.get_by_role("heading", name="Semantic cache"))

    def fact(name):
        return cache.locator("dl div", has_text=name).locator("dd")

    def number(name):
        return int(fact(name).locator("[data-number]").first.get_attribute("data-number"))

    expect(fact("Oldest answer given")).to_have_text("nothing stored yet")
    expect(fact("Stored questions")).to_have_text("0")

    def ask(question):
        body = {"model": "m", "messages": [{"role": "user", "content": question}]}
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{server.url}/v1/chat/completions", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            return "tapri-semantic; hit" in answer.headers["cache-status"]

    ask("How do I cancel my plan?")
    # What is learnt from a call is learnt after its answer. Each is new to the exact cache, and means the same.
    asked = 1
    for n in range(1, 100):
        asked += 1
        if ask("how do I cancel my plan?" + "?" * n):
            break
        page.wait_for_timeout(100)
    else:
        raise AssertionError("no stored answer was served")
    # Another question, though its words are as near as can be.
    ask("How do I cancel my plan 2?")
    asked += 1
    page.get_by_role("link", name="Cache", exact=True).click()
    assert number("Answered by a stored answer") == 1
    assert number("Stopped by a guard") >= 1 and number("Stored questions") >= 2
    rate = float(fact("Hit rate").locator("[data-percent]").get_attribute("data-percent"))
    assert abs(rate - 1 / asked) < 0.002, (rate, asked)
    expect(fact("Oldest answer given")).to_have_text(re.compile(r"^\d+ (s|min) ago$"))
    look_at(f"{server.url}/cache", "cache-semantic")
    # And it goes with everything else.
    page.get_by_role("button", name="Erase …").click()
    page.get_by_role("button", name="Yes, erase it").click()
    expect(page.locator("#purge")).to_contain_text(re.compile("Erased: [1-9]"))
    page.reload()
    expect(fact("Stored questions")).to_have_text("0")
    expect(fact("Oldest answer given")).to_have_text("nothing stored yet")
