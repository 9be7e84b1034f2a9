//! What of a case's files fits into the model's context.

use tapri_casefile::{CaseFile, CaseId, Sections, Store, StoreError};
use tapri_pipeline::ModelCard;

/// Tokens that instructions, the template around a conversation and a question take, besides the files: a guess that
/// is large enough for most.
const AROUND: u64 = 320;

/// A file with the tokens of each of its sections, where they were counted.
pub(super) type Counted = (CaseFile, Option<Vec<u64>>);

/// The files of a case, counted.
pub(super) fn counted(store: &Store, case: &CaseId) -> Result<Vec<Counted>, StoreError> {
    let files = store.files(case)?.into_iter().map(|file| {
        let sections = store.section_tokens(case, &file.id)?;
        Ok((file, sections))
    });
    files.collect()
}

/// What doesn't fit, and what would.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// Tokens that the model would read of the files.
    pub(super) tokens: u64,
    /// Tokens that there is room for.
    pub(super) room: u64,
    /// For each file, the sections that fit when they are taken in their order.
    pub(super) cut: Vec<Sections>,
}

/// What to do where the files don't fit; nothing where they do, and where nobody can tell.
pub(super) fn fit(card: &ModelCard, answer: usize, files: &[Counted]) -> Option<Fit> {
    let room = (card.context?.saturating_sub(answer) as u64).saturating_sub(AROUND);
    let mut tokens = 0;
    for (file, sections) in files {
        let sections = sections.as_deref()?;
        tokens += chosen(file, sections).map(|(_, tokens)| tokens).sum::<u64>();
    }
    if tokens <= room {
        return None;
    }
    let mut left = room;
    let cut = files
        .iter()
        .map(|(file, sections)| {
            let mut kept = Vec::new();
            for (n, tokens) in chosen(file, sections.as_deref().unwrap_or_default()) {
                // What comes behind a gap would be read out of its place.
                if tokens > left {
                    left = 0;
                    break;
                }
                left -= tokens;
                kept.push(n);
            }
            named(&kept)
        })
        .collect();
    Some(Fit { tokens, room, cut })
}

/// The sections of a file that the model reads, with their tokens.
fn chosen<'a>(file: &'a CaseFile, sections: &'a [u64]) -> impl Iterator<Item = (u32, u64)> + 'a {
    (1..)
        .zip(sections.iter().copied())
        .filter(|(n, _)| file.chosen.as_ref().is_none_or(|chosen| chosen.has(*n)))
}

fn named(kept: &[u32]) -> Sections {
    let list: Vec<String> = kept.iter().map(u32::to_string).collect();
    list.join(",").parse().unwrap_or_else(|_| Sections::none())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn file(sections: &[u64], chosen: Option<&str>) -> Counted {
        let file = CaseFile {
            id: String::new(),
            name: String::new(),
            format: "text".into(),
            pages: None,
            chars: 0,
            tokens: Some(sections.iter().sum()),
            chosen: chosen.map(|it| it.parse().unwrap()),
        };
        (file, Some(sections.to_vec()))
    }

    fn card(context: usize) -> ModelCard {
        ModelCard {
            id: "m".into(),
            aliases: Vec::new(),
            upstream: "embedded".into(),
            context: Some(context),
            vocabulary: Some(100),
            template: None,
            fingerprint: String::new(),
            since: std::time::SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn sections_are_taken_in_their_order_while_they_fit() {
        let files = [file(&[100, 100], None), file(&[100, 500, 10], None), file(&[10], None)];
        // 1,000 less 100 for the answer and what stands around: 580.
        let found = fit(&card(1000), 100, &files).unwrap();
        assert_eq!((found.tokens, found.room), (820, 580));
        let cut: Vec<String> = found.cut.iter().map(Sections::to_string).collect();
        assert_eq!(cut, ["1-2", "1", "none"]);
        assert_eq!(fit(&card(2000), 100, &files), None);
        let chosen = [file(&[100, 100], Some("2")), file(&[100, 500, 10], Some("1,3"))];
        assert_eq!(fit(&card(1000), 100, &chosen), None, "only what is chosen counts");
    }

    #[test]
    fn what_nobody_counted_is_not_judged() {
        let mut uncounted = file(&[5000], None);
        uncounted.1 = None;
        assert_eq!(fit(&card(1000), 100, &[uncounted]), None);
        let unknown = ModelCard { context: None, ..card(0) };
        assert_eq!(fit(&unknown, 100, &[file(&[5000], None)]), None);
    }
}
