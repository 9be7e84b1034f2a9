"""Search over past judgments with a model that doesn't call tools by itself: the embedded one, kept to a call."""

import re

from case_page import ask, cached_share, put_in, save, write
from playwright.sync_api import expect


def test_a_small_model_searches_where_it_is_told_to(serve, window, look_at, tmp_path):
    judgments = tmp_path / "judgments"
    judgments.mkdir()
    write(judgments, "rao-v-mehta.txt", "The court held that an easement of necessity passes with the land, and the neighbour may cross the field.")
    write(judgments, "singh-v-das.md", "The court held that rent paid late is paid all the same.")
    server = serve("--answer-tokens", "120", "--judgments", str(judgments))
    page = window()
    put_in(page, server.url, write(tmp_path, "brief.txt", "Our client wants to cross the field of his neighbour. " * 8))
    # By itself it answers, or not, as it likes.
    ask(page, "What does our client want?")
    page.get_by_text("Instructions · Tools").click()
    page.get_by_label("Search before every answer").check()
    save(page)
    expect(page.get_by_label("Search before every answer")).to_be_checked()
    turn = ask(page, "Is there an easement to cross the field of a neighbour?")
    search = turn.locator(".why", has_text="searched past judgments for")
    expect(search).to_have_count(1)
    query = re.search("searched past judgments for “(.+?)”", search.inner_text()).group(1)
    print(f"\nit searched for: {query}")
    assert query.strip()
    expect(turn.locator(".answer")).to_have_text(re.compile(r"\w+"))
    # The switch changes nothing of the prompt: what was read stays read.
    assert cached_share(turn) > 50
    expect(turn.locator(".why", has_text="tools were changed")).to_have_count(0)
    look_at(page.url, "case-search-first")
