//! Text out of PDF, guarded: the extractor is given a thread of its own with a deep stack, and its panics end there.

mod nesting;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use pdf_extract::{Document as Pdf, PlainTextOutput, output_doc_page};

use crate::DocumentError;

/// The name of the thread that extracts. A program may want to keep that thread's panics, which become
/// [`DocumentError::BrokenPdf`] or [`DocumentError::BrokenPage`], from being printed.
pub const EXTRACTION_THREAD: &str = "tapri-pdf";

/// Nested forms and arrays recurse; the default stack of a thread is 2 MB.
const STACK: usize = 64 << 20;

/// Whether the bytes say that they are a PDF. Readers allow some bytes before the mark.
pub(crate) fn is_pdf(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(1024)];
    start.windows(5).any(|window| window == b"%PDF-")
}

/// Each page's text, as the extractor gives it.
pub(crate) fn pages(name: &str, bytes: &[u8]) -> Result<Vec<String>, DocumentError> {
    let broken = |detail: String| DocumentError::BrokenPdf { name: name.to_owned(), detail };
    thread::scope(|scope| {
        thread::Builder::new()
            .name(EXTRACTION_THREAD.to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, || extract(name, bytes))
            .map_err(|error| broken(format!("no thread to read it on: {error}")))?
            .join()
            .unwrap_or_else(|panic| Err(broken(message(&*panic))))
    })
}

fn extract(name: &str, bytes: &[u8]) -> Result<Vec<String>, DocumentError> {
    let name = name.to_owned();
    let pdf = match Pdf::load_mem(bytes) {
        Ok(pdf) => pdf,
        Err(pdf_extract::Error::InvalidPassword | pdf_extract::Error::Decryption(_)) => {
            return Err(DocumentError::Encrypted { name });
        }
        Err(error) => return Err(DocumentError::BrokenPdf { name, detail: error.to_string() }),
    };
    // Many PDFs are encrypted with an empty password, only to restrict printing; loading opened those.
    if pdf.is_encrypted() {
        return Err(DocumentError::Encrypted { name });
    }
    let numbers = pdf.get_pages();
    if numbers.is_empty() {
        return Err(DocumentError::BrokenPdf { name, detail: "it has no pages".to_owned() });
    }
    let mut pages = Vec::with_capacity(numbers.len());
    for (page, id) in numbers {
        if let Some(objection) = nesting::objection(&pdf, id) {
            return Err(DocumentError::BrokenPage { name, page, detail: objection.to_owned() });
        }
        let mut text = String::new();
        let result = catch_unwind(AssertUnwindSafe(|| {
            output_doc_page(&pdf, &mut PlainTextOutput::new(&mut text), page)
        }));
        let detail = match result {
            Ok(Ok(())) => {
                pages.push(text);
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => message(&*panic),
        };
        return Err(DocumentError::BrokenPage { name, page, detail });
    }
    Ok(pages)
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("the extractor gave up");
    // One line: some of the extractor's messages carry a whole object.
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
