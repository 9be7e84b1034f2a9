"""The headline: a case file of some 27,000 tokens, with the Gemma model. Takes minutes."""

import re
import time

from case_page import agree, ask, cached_share, ended, instruct, put_in, send
from conftest import REPOSITORY
from playwright.sync_api import expect


def seconds(turn):
    return float(turn.locator("dd [data-seconds]").first.get_attribute("data-seconds"))


def test_only_the_first_question_reads_the_file(serve, window, look_at):
    server = serve("--answer-tokens", "32")
    page = window()
    page.allowed = ["net::ERR", "status of 404"]
    put_in(page, server.url, REPOSITORY / "examples" / "case_file" / "case_file.pdf")
    case = page.url
    begun = time.monotonic()

    def told(what, turn):
        took = f"first word after {seconds(turn):.2f} s, {cached_share(turn):.1f}% from the cache"
        print(f"[{time.monotonic() - begun:5.0f} s] {what}: {took}", flush=True)

    print()
    first = send(page, "Which compact is at the centre of this dispute?")
    expect(first.get_by_role("progressbar")).to_be_visible()
    told("first question", ended(first))
    assert cached_share(first) < 1
    expect(first.locator(".why")).to_contain_text("not read before")
    # The second question finds the file; a follow-up finds the earlier turns as well.
    second = ask(page, "Which four States signed the compact?")
    told("second question", second)
    third = ask(page, "Which of them is the petitioner, and what is its public task?")
    told("follow-up", third)
    for turn in [second, third]:
        assert cached_share(turn) > 99 and seconds(turn) * 10 < seconds(first)
        expect(turn.locator(".why")).to_have_count(0)
    look_at(case, "case-whole")
    # A forced miss: something before the file changes.
    instruct(page, "Answer from the file alone.")
    expect(page.locator("article.turn")).to_have_count(3)
    missed = ask(page, "What did the court decide?")
    told("after an edit", missed)
    assert cached_share(missed) < 1
    expect(missed.locator(".why")).to_contain_text("instructions were changed")
    expect(missed.locator(".why")).to_contain_text("Settle the instructions before you ask")
    # A restart: the case is there, and its file is read once more, with the reason.
    server.stop()
    server.start()
    page.goto(case)
    expect(page.locator("article.turn")).to_have_count(4)
    restarted = ask(page, "Who wrote the opinion?")
    told("after a restart", restarted)
    assert cached_share(restarted) < 1
    expect(restarted.locator(".why")).to_contain_text(re.compile("started again|not read before"))
    again = ask(page, "And who agreed?")
    told("the next", again)
    assert cached_share(again) > 99

    def kv_cached():
        metrics = page.request.get(f"{server.url}/metrics").text()
        return float(re.search(r"^tapri_kv_cached_bytes\S* (\S+)", metrics, re.M).group(1))

    # Erased from the page of caches: the case stays, its blocks go.
    assert kv_cached() > 0
    page.goto(f"{server.url}/cache")
    page.get_by_role("button", name="Erase …").click()
    page.get_by_role("button", name="Yes, erase it").click()
    expect(page.locator("#purge")).to_contain_text("Erased: 0 stored answers and")
    erased = page.locator("#purge [data-number]").last.get_attribute("data-number")
    print(f"[{time.monotonic() - begun:5.0f} s] erased {erased} blocks", flush=True)
    assert int(erased) > 1000 and kv_cached() == 0
    # Deleted: gone from every store.
    page.goto(case)
    expect(page.locator("article.turn")).to_have_count(6)
    agree(page)
    page.get_by_role("button", name="Delete this case").click()
    page.wait_for_url(f"{server.url}/")
    assert page.request.get(case).status == 404
    server.stop()
    for path in server.folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"case_file.pdf" not in content and b"Which four States" not in content, path.name
