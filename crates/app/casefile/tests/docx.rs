//! Word documents, made here part by part.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Cursor, Write};

use proptest::prelude::*;
use tapri_casefile::{Document, DocumentError, Format};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in parts {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn body(inside: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><w:document xmlns:w=\"w\" xmlns:mc=\"mc\"><w:body>{inside}</w:body></w:document>"
    )
}

fn read(inside: &str) -> String {
    let bytes = archive(&[("word/document.xml", &body(inside))]);
    let document = Document::from_bytes("a.docx", &bytes).unwrap();
    assert_eq!((document.format(), document.pages()), (Format::Docx, None));
    document.text().to_owned()
}

#[test]
fn paragraphs_tables_breaks_and_entities() {
    let text = read(
        "<w:p><w:r><w:t>A &amp; B</w:t></w:r><w:r><w:t xml:space=\"preserve\"> v. &#67;&#x44; </w:t></w:r></w:p>\
         <w:p><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>three</w:t></w:r></w:p>\
         <w:tbl><w:tr><w:tc><w:p><w:r><w:t>Rent</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>900</w:t></w:r></w:p></w:tc></w:tr>\
         <w:tr><w:tc><w:p><w:r><w:t>Well</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>1</w:t></w:r></w:p></w:tc></w:tr></w:tbl>\
         <w:p><w:r><w:br w:type=\"page\"/><w:t>Next page</w:t></w:r></w:p>",
    );
    assert_eq!(text, "A & B v. CD\n\none two\nthree\n\nRent 900\n\nWell 1\n\n\u{c}Next page");
}

#[test]
fn what_was_deleted_or_stands_twice_is_not_read() {
    let text = read(
        "<w:p><w:r><w:t>kept</w:t></w:r><w:del><w:r><w:delText>gone</w:delText><w:t>gone</w:t></w:r></w:del>\
         <w:ins><w:r><w:t> added</w:t></w:r></w:ins></w:p>\
         <mc:AlternateContent><mc:Choice><w:p><w:r><w:t>box</w:t></w:r></w:p></mc:Choice>\
         <mc:Fallback><w:p><w:r><w:t>box</w:t></w:r></w:p></mc:Fallback></mc:AlternateContent>",
    );
    assert_eq!(text, "kept added\n\nbox");
}

#[test]
fn notes_come_behind_the_text() {
    let main = body("<w:p><w:r><w:t>Text.</w:t></w:r></w:p>");
    let notes = "<w:footnotes xmlns:w=\"w\"><w:footnote><w:p><w:r><w:t>See below.</w:t></w:r></w:p></w:footnote></w:footnotes>";
    let bytes = archive(&[("word/document.xml", &main), ("word/footnotes.xml", notes)]);
    let document = Document::from_bytes("a.docx", &bytes).unwrap();
    assert_eq!(document.text(), "Text.\n\nFootnotes\n\nSee below.");
}

#[test]
fn what_harms_or_is_something_else() {
    let error = |bytes: &[u8]| Document::from_bytes("a.docx", bytes).unwrap_err();
    let blank = body(&" ".repeat(8 << 20));
    let bomb = error(&archive(&[("word/document.xml", &blank)]));
    assert!(matches!(bomb, DocumentError::Bomb { .. }), "{bomb}");
    let sheet = error(&archive(&[("xl/workbook.xml", "<x/>")]));
    assert!(matches!(sheet, DocumentError::Unsupported { .. }), "{sheet}");
    let laughs = "<!DOCTYPE x [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><w:document/>";
    let doctype = error(&archive(&[("word/document.xml", laughs)]));
    assert!(doctype.to_string().contains("document type"), "{doctype}");
    let empty = error(&archive(&[("word/document.xml", &body(""))]));
    assert!(matches!(empty, DocumentError::Empty { .. }), "{empty}");
    let torn = error(&archive(&[("word/document.xml", "<w:document><w:p></w:body>")]));
    assert!(matches!(torn, DocumentError::BrokenDocx { .. }), "{torn}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..400, flip: u8) {
        let mut whole = archive(&[("word/document.xml", &body("<w:p><w:r><w:t>Text.</w:t></w:r></w:p>"))]);
        let place = at % whole.len();
        whole[place] ^= flip;
        let _ = Document::from_bytes("a.docx", &whole);
        bytes.splice(0..0, *b"PK\x03\x04");
        prop_assert!(Document::from_bytes("a.docx", &bytes).is_err());
    }
}
