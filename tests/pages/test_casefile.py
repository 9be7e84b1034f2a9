"""The case-file page: files in, questions asked, what it took shown."""

import pathlib

from playwright.sync_api import expect

#: Long enough for some blocks of the cache, short enough to be read in a moment.
LEASE = "\n\n".join(
    f"{n}. Clause {n}. The tenant pays the rent of {1000 + n} rupees on day {n} of each month to the landlord at his house. "
    "The landlord keeps the roof, the walls and the well in good repair and lets nobody else use the garden."
    for n in range(1, 16)
)


def put_in(page, url, *paths):
    page.goto(url)
    page.locator("#files").set_input_files([str(path) for path in paths])
    page.get_by_role("button", name="Open these files").click()
    page.wait_for_url("**/casefile/*")


def ask(page, question):
    before = page.locator("article.turn").count()
    page.get_by_label("Your question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("article.turn")).to_have_count(before + 1)
    turn = page.locator("article.turn").last
    expect(turn.locator(".figures, .error, .warning").first).to_be_visible()
    return turn


def lease(tmp_path) -> pathlib.Path:
    path = tmp_path / "lease.txt"
    path.write_text(LEASE)
    return path


def cached_share(turn):
    return float(turn.locator("svg.bar").get_attribute("data-cached").rstrip("%"))


def test_the_second_question_finds_the_file_in_the_cache(serve, window, look_at, tmp_path):
    server = serve("--answer-tokens", "24")
    page = window()
    put_in(page, server.url, lease(tmp_path))
    expect(page.get_by_role("heading", level=1)).to_have_text("lease.txt")
    expect(page.get_by_text("1 file ·")).to_be_visible()
    first = ask(page, "When is the rent paid?")
    assert cached_share(first) < 5
    expect(first.locator(".why")).to_contain_text("not read before")
    second = ask(page, "Who keeps the roof in repair?")
    assert cached_share(second) > 60
    expect(second.locator(".legend")).to_contain_text("from the cache")
    expect(second.locator(".why")).to_have_count(0)
    expect(second).to_contain_text("First word after")
    expect(second).to_contain_text("Saved")
    look_at(page.url, "case")
    look_at(server.url, "home")
