//! The case file in the context of the model that `tapri ask` takes by default.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use tapri_casefile::{Document, Layout, Prompt, Room, Session};
use tapri_gguf::Gguf;
use tapri_text::{Special, Tokenizer};

#[test]
fn file_longest_question_and_answer_fit() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/case_file");
    let gguf = Gguf::open(tapri_registry::test_model("gemma-3-270m")).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let count = |prompt: &Prompt| match prompt {
        // One more for the beginning of the text.
        Prompt::Text(text) => Ok::<_, String>(tokenizer.encode(text, Special::AsText).len() + 1),
        other => Err(format!("a base model reads text, not {other:?}")),
    };
    let questions = fs::read_to_string(folder.join("questions.txt")).unwrap();
    // The PDF's text takes fewer tokens than the reference, whose words are torn here and there.
    for (file, most) in [("case_file.pdf", 27_600), ("case_file.txt", 30_745)] {
        let document = Document::open(&folder.join(file)).unwrap();
        let mut session =
            Session::new(document, Layout::Completion, Room { context: 32_768, answer: 64 });
        let longest = questions
            .lines()
            .map(|question| session.prepare(question, count).unwrap().tokens)
            .max()
            .unwrap();
        assert!((25_000..=most).contains(&longest), "{file}: {longest} tokens");
    }
}
