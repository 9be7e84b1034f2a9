"""Files for the tests, made here: no office program and no other library is needed."""

import io
import zipfile
import zlib

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def docx(*paragraphs):
    """A Word document of some paragraphs."""
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    return archive({"word/document.xml": f'<?xml version="1.0"?><w:document {W}><w:body>{body}</w:body></w:document>'})


def archive(parts):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return held.getvalue()


def bomb():
    """A DOCX of a megabyte that unpacks to a gigabyte."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        with file.open("word/document.xml", "w", force_zip64=True) as part:
            blank = b" " * (1 << 20)
            for _ in range(1 << 10):
                part.write(blank)
    return held.getvalue()


def pdf(pages, scanned=False, encrypted=False):
    """A PDF with a line or several on each page; scanned ones have a picture instead."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", None, b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        if scanned:
            content = b"0.5 g 10 10 200 200 re f"
        else:
            lines = b" T* ".join(b"(%s) Tj" % line.encode("latin-1").replace(b"(", b"\\(").replace(b")", b"\\)") for line in text.split("\n"))
            content = b"BT /F1 11 Tf 14 TL 40 760 Td " + lines + b" ET"
        packed = zlib.compress(content)
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>"
            % len(objects)
        )
        kids.append(len(objects))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(b"%d 0 R" % kid for kid in kids))
    extra = b""
    if encrypted:
        # Standard security handler, revision 3, with a password that nobody here knows.
        objects.append(
            b"<< /Filter /Standard /V 2 /R 3 /Length 128 /P -44 /O <%s> /U <%s> >>" % (b"3a" * 32, b"5c" * 32)
        )
        extra = b" /Encrypt %d 0 R /ID [<%s> <%s>]" % (len(objects), b"11" * 16, b"11" * 16)
    held = io.BytesIO()
    held.write(b"%PDF-1.5\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(held.tell())
        held.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = held.tell()
    held.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    held.writelines(b"%010d 00000 n \n" % place for place in places)
    held.write(b"trailer\n<< /Size %d /Root 1 0 R%s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, extra, start))
    return held.getvalue()
