"""The headline: a case file of some 27,000 tokens, with the Gemma model. Takes minutes."""

from case_page import ask, cached_share, put_in
from conftest import REPOSITORY


def seconds(turn):
    return float(turn.locator("dd [data-seconds]").first.get_attribute("data-seconds"))


def test_only_the_first_question_reads_the_file(serve, window, look_at):
    server = serve("--answer-tokens", "64")
    page = window()
    put_in(page, server.url, REPOSITORY / "examples" / "case_file" / "case_file.pdf")
    first = ask(page, "Which compact is at the centre of this dispute?")
    second = ask(page, "Which four States signed the compact?")
    third = ask(page, "Who is the petitioner, and what is its public task?")
    print(f"\nfirst word after {seconds(first):.1f} s, then {seconds(second):.2f} s and {seconds(third):.2f} s")
    assert cached_share(first) < 1 and cached_share(second) > 99 and cached_share(third) > 99
    assert seconds(second) * 10 < seconds(first) and seconds(third) * 10 < seconds(first)
    look_at(page.url, "case-whole")
