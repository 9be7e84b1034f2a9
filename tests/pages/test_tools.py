"""Search over past judgments, called by a model that can; the upstream is scripted, all else is real."""

import json

from case_page import ask, put_in, save, send, write
from playwright.sync_api import expect
from scripted import FAKE, control


def calls(query):
    return {"tool_calls": [{"name": "search_judgments", "arguments": json.dumps({"query": query})}]}


def test_a_model_searches_past_judgments(serve, window, look_at, tmp_path):
    judgments = tmp_path / "judgments"
    judgments.mkdir()
    write(judgments, "rao-v-mehta.txt", "The court held that an easement of necessity passes with the land.")
    write(judgments, "singh-v-das.md", "The court held that rent paid late is paid all the same.")
    config = tmp_path / "tapri.toml"
    config.write_text(f'[[upstream]]\nname = "fake"\nkind = "openai"\nurl = "{FAKE}/v1"\nmodels = ["m"]\n')
    server = serve("--config", str(config), "--judgments", str(judgments))
    page = window()
    put_in(page, server.url, write(tmp_path, "brief.txt", "Our client wants to cross the neighbour's field."))
    control("PUT", "/__script", {"queue": [calls("easements"), {"text": "Yes, see Rao v. Mehta."}]})
    control("DELETE", "/__requests")
    turn = ask(page, "May he cross it?")
    expect(turn.locator(".answer")).to_have_text("Yes, see Rao v. Mehta.")
    expect(turn).to_contain_text("searched past judgments for “easements”")
    expect(turn).to_contain_text("rao-v-mehta.txt, part 1")
    look_at(page.url, "case-search")
    first, second = [seen["body"] for seen in control("GET", "/__requests")]
    assert first["tools"][0]["function"]["name"] == "search_judgments"
    # The second call carries on from the first: only what the tool said is new.
    assert second["messages"][: len(first["messages"])] == first["messages"] and second["tools"] == first["tools"]
    assert "easement of necessity" in second["messages"][-1]["content"]
    # A model that never stops searching is told to answer.
    control("PUT", "/__script", {"queue": [calls("rent")] * 3 + [{"text": "Enough."}]})
    control("DELETE", "/__requests")
    turn = ask(page, "And the rent?")
    expect(turn.locator(".answer")).to_have_text("Enough.")
    assert [seen["body"].get("tool_choice") for seen in control("GET", "/__requests")] == [None, None, None, "none"]
    # Tools that are taken out aren't offered.
    page.get_by_text("Instructions · Tools").click()
    page.get_by_label("Search past judgments").uncheck()
    save(page)
    expect(page.locator("article.turn")).to_have_count(2)
    control("DELETE", "/__requests")
    ask(page, "And now?")
    assert "tools" not in control("GET", "/__requests")[0]["body"]


def test_an_upstream_that_fails_is_said(serve, window, tmp_path):
    config = tmp_path / "tapri.toml"
    config.write_text(f'[[upstream]]\nname = "fake"\nkind = "openai"\nurl = "{FAKE}/v1"\nmodels = ["m"]\nretries = 0\n')
    server = serve("--config", str(config))
    page = window()
    put_in(page, server.url, write(tmp_path, "brief.txt", "Our client wants to cross the neighbour's field."))
    control("PUT", "/__script", {"queue": [{"status": 400, "error": "This model is on holiday"}, {"text": "Back."}]})
    turn = ask(page, "May he?")
    expect(turn.locator(".error")).to_contain_text("This model is on holiday")
    turn.get_by_role("button", name="Ask again").click()
    expect(page.locator("article.turn .answer")).to_have_text("Back.")
