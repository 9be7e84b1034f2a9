//! Whether a page's forms end.
//!
//! The extractor follows a form inside a form by recursion and without a limit: a form that draws itself would
//! overflow the stack, which no guard catches, and ten forms that draw each other ten times would never end.
//! The page tree is followed upwards in the same way.

use std::collections::HashMap;

use pdf_extract::content::Content;
use pdf_extract::{Dictionary, Document as Pdf, Object, ObjectId};

/// Forms inside forms. PDF writers nest two or three.
const DEPTH: usize = 28;

/// Forms drawn for one page, repetitions counted.
const DRAWN: usize = 20_000;

/// Levels of the page tree above a page.
const LEVELS: usize = 64;

/// Why the extractor may not have the page, if so.
pub(super) fn objection(pdf: &Pdf, page: ObjectId) -> Option<&'static str> {
    let mut above = pdf.get_dictionary(page).ok();
    let mut resources = None;
    for level in 0.. {
        let Some(node) = above else { break };
        if level == LEVELS {
            return Some("its page tree is too deep");
        }
        resources = resources.or_else(|| dictionary(pdf, node, b"Resources"));
        above = node
            .get(b"Parent")
            .and_then(Object::as_reference)
            .and_then(|id| pdf.get_dictionary(id))
            .ok();
    }
    let content = pdf.get_page_content(page).ok()?;
    let mut walk = Walk { pdf, names: HashMap::new(), left: DRAWN };
    walk.content(&drawn_in(&content), resources?, DEPTH)
}

struct Walk<'a> {
    pdf: &'a Pdf,
    /// What each form draws, by name; forms are decoded once.
    names: HashMap<ObjectId, Vec<Vec<u8>>>,
    left: usize,
}

impl<'a> Walk<'a> {
    fn content(
        &mut self,
        names: &[Vec<u8>],
        resources: &'a Dictionary,
        depth: usize,
    ) -> Option<&'static str> {
        let forms = dictionary(self.pdf, resources, b"XObject")?;
        for name in names {
            let Ok(id) = forms.get(name).and_then(Object::as_reference) else { continue };
            let Ok(form) = self.pdf.get_object(id).and_then(Object::as_stream) else { continue };
            if depth == 0 {
                return Some("its forms are nested too deep");
            }
            self.left = match self.left.checked_sub(1) {
                None => return Some("it draws too many forms"),
                Some(left) => left,
            };
            let names = self
                .names
                .entry(id)
                .or_insert_with(|| {
                    form.get_plain_content().map(|content| drawn_in(&content)).unwrap_or_default()
                })
                .clone();
            let own = dictionary(self.pdf, &form.dict, b"Resources").unwrap_or(resources);
            if let Some(objection) = self.content(&names, own, depth - 1) {
                return Some(objection);
            }
        }
        None
    }
}

/// The names of the forms and images that a content stream draws.
fn drawn_in(content: &[u8]) -> Vec<Vec<u8>> {
    let Ok(content) = Content::decode(content) else { return Vec::new() };
    content
        .operations
        .iter()
        .filter(|operation| operation.operator == "Do")
        .filter_map(|operation| Some(operation.operands.first()?.as_name().ok()?.to_vec()))
        .collect()
}

fn dictionary<'a>(pdf: &'a Pdf, holder: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
    let (_, object) = pdf.dereference(holder.get(key).ok()?).ok()?;
    object.as_dict().ok()
}
