"""Files that can't be read, files that don't fit, and conversations that outgrow the context."""

import zlib

from case_page import LEASE, ask, cached_share, ended, put_in, send, write
from files import bomb, docx, pdf
from playwright.sync_api import expect


def refused(page, url, path):
    """Puts a file in, and gives what the page says against it."""
    page.goto(url)
    page.locator("#files").set_input_files(str(path))
    page.get_by_role("button", name="Open these files").click()
    trouble = page.locator("#trouble .error")
    expect(trouble).to_be_visible()
    return trouble


def costly():
    """A PDF of a megabyte whose one page unpacks to more than its reader may have."""
    packer = zlib.compressobj(1)
    blank = b" " * (1 << 20)
    packed = b"".join(packer.compress(blank) for _ in range(1200)) + packer.flush()
    small = pdf(["x"])
    start = small.index(b"4 0 obj")
    end = small.index(b"endobj", start)
    page = b"4 0 obj\n<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream\n" % (len(packed), packed)
    # Without its table, which is wrong now; readers look for the objects then.
    body = small[:start] + page + small[end : small.index(b"xref")]
    objects = body.count(b" 0 obj")
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (objects + 1)
    for number in range(1, objects + 1):
        table += b"%010d 00000 n \n" % body.index(b"%d 0 obj" % number)
    return body + table + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (objects + 1, len(body))


def test_files_that_can_not_be_read_say_why_and_what_to_do(serve, window, look_at, tmp_path):
    server = serve()
    page = window()
    page.allowed = ["status of 422"]
    cases = [
        ("scan.pdf", pdf(["", ""], scanned=True), "2 pages and no text: it is scanned", "OCR"),
        ("locked.pdf", pdf(["Secret."], encrypted=True), "needs a password", "without a password"),
        ("bomb.docx", bomb(), "unpacks to far more than a document holds", "save it again"),
        ("costly.pdf", costly(), "more memory or time", "save it again"),
        ("broken.docx", docx("x")[:-40], "broken Word document", "save it again"),
        ("old.doc", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), "of before 2007", "save it as PDF, Word (DOCX)"),
        ("photo.txt", b"\x89PNG\r\n\x1a\n" + bytes(64), "a picture", "OCR"),
        ("latin.txt", "Résumé".encode("latin-1"), "not UTF-8", "iconv"),
        ("empty.txt", b" \n\n", "is empty", ""),
        ("broken.pdf", b"%PDF-1.5\nnonsense", "broken PDF", "print it to a new PDF"),
    ]
    for name, content, why, to_do in cases:
        trouble = refused(page, server.url, write(tmp_path, name, content))
        expect(trouble).to_contain_text(name)
        expect(trouble).to_contain_text(why)
        expect(trouble).to_contain_text(to_do)
    # Nothing of them is kept, and the server is as well as before.
    expect(page.get_by_text("Earlier cases")).to_have_count(0)
    # One that can't be read is no reason to lose another.
    page.goto(server.url)
    page.locator("#files").set_input_files([str(tmp_path / "scan.pdf"), str(write(tmp_path, "good.txt", LEASE))])
    page.get_by_role("button", name="Open these files").click()
    expect(page.locator("#trouble .error")).to_have_count(1)
    page.get_by_role("link", name="Go on with the files").click()
    expect(page.locator(".file .name")).to_have_text(["good.txt"])


def test_a_file_over_the_context_is_cut_or_chosen_from(serve, window, look_at, tmp_path):
    server = serve("--answer-tokens", "16")
    page = window()
    page.allowed = ["status of 422"]
    lines = [
        f"Page {n}. The parties agree on clause {n}.\nThe rent of flat {n} is {n * 7} rupees a month, paid on day {n % 28 + 1}.\n"
        "The landlord keeps the roof, the walls and the well in good repair."
        for n in range(1, 301)
    ]
    put_in(page, server.url, write(tmp_path, "long.pdf", pdf(lines)))
    expect(page.locator(".file .about")).to_contain_text("300 pages")
    fit = page.locator("#fit")
    expect(fit).to_contain_text("The files don't fit")
    expect(fit).to_contain_text("long.pdf: pages 1-")
    # Asked all the same, the page says so, and the question is not lost.
    turn = ask(page, "What is the rent of flat 2?")
    expect(turn).to_contain_text("longer than the model can read")
    look_at(page.url, "case-too-long")
    with page.expect_navigation():
        page.get_by_role("button", name="Cut to what fits").click()
    expect(fit).to_have_count(0)
    expect(page.locator(".file .about")).to_contain_text("pages 1-")
    # Or some pages, by their numbers.
    box = page.locator("input[name=pages]")
    box.fill("0-4")
    page.on("dialog", lambda dialog: dialog.accept())
    page.locator(".choose button").click()
    expect(page.locator("#case-trouble")).to_contain_text('"0-4" is no page')
    box.fill("2-400")
    page.locator(".choose button").click()
    expect(page.locator("#case-trouble")).to_contain_text("There is no page 400; the file has 300")
    box.fill("2, 5-6")
    with page.expect_navigation():
        page.locator(".choose button").click()
    expect(page.locator(".file .about")).to_contain_text("pages 2, 5-6 are read")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator("article.turn .figures")).to_be_visible()
    # Three pages of some sixty tokens, and not three hundred.
    prompt = page.locator("article.turn dd [data-number]").get_attribute("data-number")
    assert 100 < int(prompt) < 400, prompt


def test_a_conversation_that_outgrows_the_context_lets_its_oldest_turns_go(serve, window, tmp_path):
    # Of SmolLM2's 8,192 tokens all but some 700 are kept for the answer.
    server = serve("--answer-tokens", "7492")
    page = window()
    put_in(page, server.url, write(tmp_path, "note.txt", "The tea is ready at five. Sugar is on the table."))
    filler = "Please note that this is about the tea and about nothing else in the world. " * 12
    told = None
    for n in range(1, 7):
        turn = ask(page, f"{n}. {filler} When is the tea ready? Answer in three words.")
        if turn.locator(".warning").count():
            told = turn.locator(".warning")
            break
    assert told, "the context was never full"
    expect(told).to_contain_text("no longer shown to the model")
    expect(told).to_contain_text("The files stay whole")
    # They went in one step: the next question doesn't drop again, and finds the file and what is left.
    expect(turn.locator(".figures")).to_be_visible()
    # All turns are still there to be read.
    expect(page.locator("article.turn")).to_have_count(n)
