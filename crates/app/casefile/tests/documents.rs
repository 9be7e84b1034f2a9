//! Files to text: the committed case file, and every kind of file that gives none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use pdf_extract::{
    Dictionary, Document as Pdf, EncryptionState, EncryptionVersion, Object, Permissions, Stream,
    StringFormat,
};
use tapri_casefile::{Document, DocumentError, Format};

fn case_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/case_file").join(name)
}

#[test]
fn the_case_file_is_extracted_whole() {
    let document = Document::open(&case_file("case_file.pdf")).unwrap();
    assert_eq!((document.format(), document.pages()), (Format::Pdf, Some(66)));
    // The reference was made with another extractor. Their spaces differ: its words are torn here and there.
    let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let reference = fs::read_to_string(case_file("case_file.txt")).unwrap();
    let (ours, theirs): (Vec<_>, Vec<_>) =
        (document.text().split('\u{c}').collect(), reference.split('\u{c}').collect());
    assert_eq!(ours.len(), theirs.len());
    for (page, (ours, theirs)) in ours.into_iter().zip(theirs).enumerate() {
        assert_eq!(letters(ours), letters(theirs), "page {}", page + 1);
    }
    let words = |text: &str| text.split_whitespace().count();
    let (ours, theirs) = (words(document.text()), words(&reference));
    assert!(ours <= theirs && ours * 100 >= theirs * 99, "{ours} words against {theirs}");
    assert!(
        document.text().len() <= reference.len(),
        "{} bytes against {}",
        document.text().len(),
        reference.len()
    );
    assert!(document.text().contains("allocates water rights within the Red River basin"));
}

#[test]
fn the_same_bytes_give_the_same_text() {
    let path = case_file("case_file.pdf");
    assert_eq!(Document::open(&path).unwrap(), Document::open(&path).unwrap());
}

/// A PDF with one page per text.
fn pdf(pages: &[&str]) -> Pdf {
    let name = |text: &str| Object::Name(text.as_bytes().to_vec());
    let dict = |entries: Vec<(&str, Object)>| {
        let mut dict = Dictionary::new();
        entries.into_iter().for_each(|(key, value)| dict.set(key, value));
        dict
    };
    let mut pdf = Pdf::with_version("1.5");
    let tree = pdf.new_object_id();
    let font = pdf.add_object(dict(vec![
        ("Type", name("Font")),
        ("Subtype", name("Type1")),
        ("BaseFont", name("Helvetica")),
        ("Encoding", name("WinAnsiEncoding")),
    ]));
    let fonts = dict(vec![("F1", font.into())]);
    let resources = pdf.add_object(dict(vec![("Font", fonts.into())]));
    let mut kids: Vec<Object> = Vec::new();
    for text in pages {
        let draw = match *text {
            "" => String::new(),
            text => format!("BT /F1 12 Tf 72 700 Td ({text}) Tj ET"),
        };
        let content = pdf.add_object(Stream::new(Dictionary::new(), draw.into_bytes()));
        let page = dict(vec![
            ("Type", name("Page")),
            ("Parent", tree.into()),
            ("Resources", resources.into()),
            ("Contents", content.into()),
            ("MediaBox", vec![0.into(), 0.into(), 612.into(), 792.into()].into()),
        ]);
        kids.push(pdf.add_object(page).into());
    }
    let count = i64::try_from(kids.len()).unwrap();
    let pages = dict(vec![("Type", name("Pages")), ("Kids", kids.into()), ("Count", count.into())]);
    pdf.objects.insert(tree, pages.into());
    let catalog = pdf.add_object(dict(vec![("Type", name("Catalog")), ("Pages", tree.into())]));
    pdf.trailer.set("Root", catalog);
    let id = || Object::String(b"0123456789abcdef".to_vec(), StringFormat::Literal);
    pdf.trailer.set("ID", vec![id(), id()]);
    pdf
}

fn bytes(mut pdf: Pdf) -> Vec<u8> {
    let mut bytes = Vec::new();
    pdf.save_to(&mut bytes).unwrap();
    bytes
}

fn encrypted(user_password: &str) -> Vec<u8> {
    let mut pdf = pdf(&["Hello from within"]);
    let state = EncryptionState::try_from(EncryptionVersion::V2 {
        document: &pdf,
        owner_password: "owner",
        user_password,
        key_length: 128,
        permissions: Permissions::all(),
    })
    .unwrap();
    pdf.encrypt(&state).unwrap();
    bytes(pdf)
}

fn error(name: &str, bytes: &[u8]) -> DocumentError {
    Document::from_bytes(name, bytes).unwrap_err()
}

#[test]
fn a_small_pdf() {
    let document =
        Document::from_bytes("x.pdf", &bytes(pdf(&["Page one", "", "Page three"]))).unwrap();
    assert_eq!(document.text(), "Page one\u{c}\u{c}Page three");
}

#[test]
fn a_pdf_with_a_password() {
    let error = error("secret.pdf", &encrypted("user"));
    assert!(matches!(error, DocumentError::Encrypted { .. }), "{error}");
    assert_eq!(error.to_string(), "secret.pdf is encrypted and needs a password");
    assert!(error.hint().unwrap().contains("password"));
}

#[test]
fn a_pdf_whose_password_is_empty_opens() {
    let document = Document::from_bytes("locked.pdf", &encrypted("")).unwrap();
    assert_eq!(document.text(), "Hello from within");
}

#[test]
fn a_scanned_pdf() {
    let error = error("scan.pdf", &bytes(pdf(&["", ""])));
    assert_eq!(error.to_string(), "scan.pdf has 2 pages and no text: it is scanned");
    assert!(error.hint().unwrap().contains("OCR"));
}

#[test]
fn broken_pdfs() {
    let whole = bytes(pdf(&["Hello"]));
    let truncated = &whole[..whole.len() / 2];
    let real = fs::read(case_file("case_file.pdf")).unwrap();
    for (what, bytes) in [
        ("truncated", truncated),
        ("truncated case file", &real[..real.len() / 3]),
        ("header alone", b"%PDF-1.7\n".as_slice()),
        ("another file", b"hello".as_slice()),
        ("no pages", &self::bytes(pdf(&[]))),
    ] {
        let error = error("broken.pdf", bytes);
        assert!(matches!(error, DocumentError::BrokenPdf { .. }), "{what}: {error}");
        assert!(error.to_string().starts_with("broken.pdf is a broken PDF: "), "{what}: {error}");
    }
}

#[test]
fn damaged_bytes_never_get_out_of_hand() {
    // Each run damages other bytes of a PDF's body: an error or some text, never a panic that gets out.
    let whole = bytes(pdf(&["Hello", "World"]));
    for at in (0..whole.len()).step_by(3) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x15;
        let _ = Document::from_bytes("damaged.pdf", &damaged);
    }
}

#[test]
fn a_page_that_cannot_be_read_is_not_left_out() {
    let mut pdf = pdf(&["Hello", "World"]);
    let page = *pdf.get_pages().get(&2).unwrap();
    pdf.get_object_mut(page).unwrap().as_dict_mut().unwrap().set("Resources", Object::Integer(7));
    let error = error("half.pdf", &bytes(pdf));
    assert!(matches!(error, DocumentError::BrokenPage { page: 2, .. }), "{error}");
}

#[test]
fn a_form_that_draws_itself() {
    let mut pdf = pdf(&["Hello"]);
    let form = pdf.new_object_id();
    let mut own = Dictionary::new();
    own.set("X", form);
    let mut resources = Dictionary::new();
    resources.set("XObject", own);
    let mut dict = Dictionary::new();
    dict.set("Type", Object::Name(b"XObject".to_vec()));
    dict.set("Subtype", Object::Name(b"Form".to_vec()));
    dict.set("BBox", vec![0.into(), 0.into(), 9.into(), 9.into()]);
    dict.set("Resources", resources.clone());
    pdf.objects.insert(form, Stream::new(dict, b"/X Do".to_vec()).into());
    let page = *pdf.get_pages().get(&1).unwrap();
    let content = pdf.add_object(Stream::new(Dictionary::new(), b"/X Do".to_vec()));
    let dict = pdf.get_object_mut(page).unwrap().as_dict_mut().unwrap();
    dict.set("Resources", resources);
    dict.set("Contents", content);
    let error = error("loop.pdf", &bytes(pdf));
    assert_eq!(
        error.to_string(),
        "page 1 of loop.pdf could not be read: its forms are nested too deep"
    );
}

#[test]
fn a_page_tree_without_a_top() {
    let mut pdf = pdf(&["Hello"]);
    let page = *pdf.get_pages().get(&1).unwrap();
    let dict = pdf.get_object_mut(page).unwrap().as_dict_mut().unwrap();
    dict.set("Parent", page);
    dict.remove(b"Resources");
    let error = error("loop.pdf", &bytes(pdf));
    assert_eq!(
        error.to_string(),
        "page 1 of loop.pdf could not be read: its page tree is too deep"
    );
}

#[test]
fn empty_files() {
    for (name, bytes) in [
        ("a.txt", b"".as_slice()),
        ("b.md", b" \n\t\r\n"),
        ("c.pdf", b""),
        ("d.txt", b"\xef\xbb\xbf"),
    ] {
        let error = error(name, bytes);
        assert_eq!(error.to_string(), format!("{name} is empty"));
    }
}

#[test]
fn what_is_not_utf8() {
    let error = error("latin1.txt", b"caf\xe9 au lait");
    assert!(matches!(error, DocumentError::NotUtf8 { offset: 3, .. }), "{error}");
    assert!(error.hint().unwrap().contains("iconv"));
    assert!(matches!(
        self::error("utf16.txt", b"\xff\xfeh\0i\0"),
        DocumentError::NotUtf8 { offset: 0, .. }
    ));
}

#[test]
fn what_is_no_document() {
    let says = |name: &str, bytes: &[u8]| {
        let error = error(name, bytes);
        assert!(error.hint().is_some(), "{error}");
        error.to_string()
    };
    assert!(says("brief.docx", b"PK\x03\x04rest").starts_with("brief.docx is a broken Word"));
    let compound = [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];
    assert!(says("old.doc", &compound).contains("Word document of before 2007"));
    let name: Vec<u8> = "EncryptedPackage".bytes().flat_map(|byte| [byte, 0]).collect();
    assert!(says("locked.docx", &[&compound[..], &name].concat()).contains("needs a password"));
    assert!(says("photo.txt", b"\x89PNG\r\n").contains("a picture"));
}

#[test]
fn no_file_and_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none.txt");
    assert!(
        matches!(Document::open(&missing), Err(DocumentError::Missing(path)) if path == missing)
    );
    assert!(matches!(Document::open(dir.path()), Err(DocumentError::Folder(_))));
}

#[test]
fn markdown_and_text() {
    let document = Document::from_bytes("x.MD", b"# Title  \r\n\r\n\r\n    code\r\n").unwrap();
    assert_eq!((document.format(), document.text()), (Format::Markdown, "# Title\n\n    code"));
    let document = Document::from_bytes("x", "\u{feff}plain".as_bytes()).unwrap();
    assert_eq!(
        (document.format(), document.text(), document.pages()),
        (Format::Text, "plain", None)
    );
}
