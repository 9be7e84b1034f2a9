//! What the case-file page says.

use tapri_ledger::MissReason;

/// What the case-file page says.
#[derive(Debug)]
pub(crate) struct CaseTexts {
    pub(crate) title: &'static str,
    pub(crate) intro: &'static str,
    pub(crate) drop: &'static str,
    pub(crate) drop_hint: &'static str,
    pub(crate) limit: &'static str,
    pub(crate) choose: &'static str,
    pub(crate) read_files: &'static str,
    pub(crate) add_files: &'static str,
    pub(crate) sending: &'static str,
    pub(crate) reading_files: &'static str,
    pub(crate) no_files: &'static str,
    pub(crate) no_files_hint: &'static str,
    pub(crate) too_many_files: &'static str,
    pub(crate) too_large: &'static str,
    pub(crate) too_large_hint: &'static str,
    pub(crate) broken_upload: &'static str,
    pub(crate) broken_upload_hint: &'static str,
    pub(crate) not_read: &'static str,
    pub(crate) go_on: &'static str,
    pub(crate) earlier: &'static str,
    pub(crate) untitled: &'static str,
    pub(crate) last_used: &'static str,
    pub(crate) back: &'static str,

    pub(crate) files: &'static str,
    pub(crate) pages: &'static str,
    pub(crate) one_page: &'static str,
    pub(crate) characters: &'static str,
    pub(crate) tokens: &'static str,
    pub(crate) one_file: &'static str,
    pub(crate) several_files: &'static str,
    pub(crate) delete_file: &'static str,
    pub(crate) delete_file_sure: &'static str,
    pub(crate) delete_case: &'static str,
    pub(crate) delete_case_sure: &'static str,
    pub(crate) deleted_incomplete: &'static str,
    pub(crate) busy: &'static str,
    pub(crate) busy_hint: &'static str,

    pub(crate) questions: &'static str,
    pub(crate) no_questions: &'static str,
    pub(crate) ask_label: &'static str,
    pub(crate) ask_hint: &'static str,
    pub(crate) ask: &'static str,
    pub(crate) stop: &'static str,
    pub(crate) again: &'static str,
    pub(crate) empty_question: &'static str,
    pub(crate) long_question: &'static str,

    pub(crate) preparing: &'static str,
    pub(crate) waiting: &'static str,
    pub(crate) reading: &'static str,
    pub(crate) reading_of: &'static str,
    pub(crate) answering: &'static str,
    pub(crate) lost: &'static str,

    pub(crate) question_number: &'static str,
    pub(crate) no_answer: &'static str,
    pub(crate) cut: &'static str,
    pub(crate) stopped: &'static str,
    pub(crate) interrupted: &'static str,
    pub(crate) dropped: &'static str,
    pub(crate) first_word: &'static str,
    pub(crate) whole_answer: &'static str,
    pub(crate) prompt: &'static str,
    pub(crate) cost: &'static str,
    pub(crate) saved: &'static str,
    pub(crate) cost_hint: &'static str,
    pub(crate) from_cache: &'static str,
    pub(crate) read_fresh: &'static str,
    pub(crate) bar_label: &'static str,
    pub(crate) stored: &'static str,
    pub(crate) why: &'static str,
    pub(crate) to_do: &'static str,

    pub(crate) check: &'static str,
    pub(crate) better: &'static str,
    pub(crate) better_how: [&'static str; 3],
}

pub(super) const ENGLISH: CaseTexts = CaseTexts {
    title: "Case file",
    intro: "Put in the files of a case and ask about them. The first question has the model read them; after that, the \
            next answer begins at once.",
    drop: "Drop files here",
    drop_hint: "PDF, Word (DOCX), Markdown or text. Several files keep the order in which you add them.",
    limit: "Up to {} MB together.",
    choose: "or choose files",
    read_files: "Open these files",
    add_files: "Add files",
    sending: "Sending the files",
    reading_files: "Taking the text out of the files",
    no_files: "No file was sent.",
    no_files_hint: "Choose at least one file.",
    too_many_files: "More than {} files were sent at once.",
    too_large: "The files are larger than {} MB together.",
    too_large_hint: "Send fewer at once, or have the operator raise upload_limit in [pages].",
    broken_upload: "The upload broke off before its end.",
    broken_upload_hint: "Send the files again.",
    not_read: "{} could not be opened",
    go_on: "Go on with the files that were opened",
    earlier: "Earlier cases",
    untitled: "Case without files",
    last_used: "last used {}",
    back: "All cases",

    files: "Files",
    pages: "{} pages",
    one_page: "1 page",
    characters: "{} characters",
    tokens: "{} tokens",
    one_file: "1 file",
    several_files: "{} files",
    delete_file: "Delete",
    delete_file_sure: "Delete this file? Its text, all questions and answers of this case, and what the caches hold of them \
                       will be gone. This can't be undone.",
    delete_case: "Delete this case",
    delete_case_sure: "Delete this case? Its files, questions and answers, and what the caches hold of them will be gone. \
                       This can't be undone.",
    deleted_incomplete: "The files are deleted, but something could not be erased: {}.",
    busy: "A question of this case is being answered.",
    busy_hint: "Wait until it is answered, or stop it. It may have been asked in another window.",

    questions: "Questions and answers",
    no_questions: "Nothing was asked yet. The first question takes longest, since the model reads the files for it.",
    ask_label: "Your question",
    ask_hint: "Enter sends it, Shift and Enter begins a new line.",
    ask: "Ask",
    stop: "Stop",
    again: "Ask again",
    empty_question: "Write a question first.",
    long_question: "The question is longer than {} characters.",

    preparing: "Laying out the prompt",
    waiting: "Waiting for its turn",
    reading: "The model reads",
    reading_of: "{0} of {1} tokens",
    answering: "The answer is being written",
    lost: "The connection to Tapri is lost. What was answered so far is kept, and this page goes on by itself when Tapri is \
           back.",

    question_number: "Question {}",
    no_answer: "The model said nothing.",
    cut: "The answer was ended at its longest. Ask for the rest, or have the operator raise answer_tokens in [pages].",
    stopped: "You stopped this answer.",
    interrupted: "Tapri was stopped while this answer was being written. What had come by then is kept.",
    dropped: "The conversation no longer fitted beside the files, so the oldest {} questions and their answers are no longer \
              shown to the model. The files stay whole. The next question reads what follows them again, once.",
    first_word: "First word after",
    whole_answer: "Whole answer after",
    prompt: "Prompt",
    cost: "Cost",
    saved: "Saved",
    cost_hint: "estimates, at the price list {}",
    from_cache: "{} tokens from the cache",
    read_fresh: "{} tokens read fresh",
    bar_label: "{0} of {1} tokens of the prompt came from the cache",
    stored: "This answer was stored before, so the model was not asked.",
    why: "Why it was not faster:",
    to_do: "What to do:",

    check: "This is a small model. It makes mistakes and can sound sure of them: check every answer against the file.",
    better: "How to get better answers",
    better_how: [
        "Run 'tapri pull' to see larger models that are tuned to answer, and start 'tapri serve --model NAME' with one.",
        "Or add an upstream to tapri.toml: a server of your own (vLLM, SGLang, llama.cpp) or a hosted one.",
        "A larger model reads a file more slowly the first time. Later questions are quick with any of them.",
    ],
};

/// Why less was reused than could be, in the words of somebody who works on a case, and what to do; `None` where the
/// explanation's own words are as good.
pub(crate) fn reason(reason: MissReason) -> Option<(&'static str, &'static str)> {
    Some(match reason {
        MissReason::NeverSeen => (
            "These files were not read before, so the model had to read them.",
            "Nothing. The next question begins at once.",
        ),
        MissReason::Restarted => (
            "Tapri was started again since the files were read, and its memory was empty.",
            "Nothing. The next question begins at once.",
        ),
        MissReason::Evicted => (
            "The files had been read, but other prompts needed the memory since.",
            "Give the cache more memory (--kv-memory), or work on fewer cases at a time.",
        ),
        MissReason::Expired => (
            "The files had been read, but that was longer ago than prompts are kept.",
            "Ask in quicker succession, or have the operator raise or remove --prefix-ttl.",
        ),
        MissReason::InstructionsEdited => (
            "The instructions were changed. They stand before the files, so everything behind them was read again.",
            "Settle the instructions before you ask, and leave them.",
        ),
        MissReason::ToolAdded
        | MissReason::ToolRemoved
        | MissReason::ToolEdited
        | MissReason::ToolsReordered
        | MissReason::ToolReserialised => (
            "The tools were changed. They stand before the files, so everything behind them was read again.",
            "Settle the tools before you ask, and leave them.",
        ),
        MissReason::FileChanged | MissReason::PagesReordered => (
            "The files differ from those of the last question, so they were read again from the first difference on.",
            "Add all files before you ask.",
        ),
        MissReason::TurnsShortened => (
            "The oldest questions were taken out since the conversation no longer fitted, so what followed them was read again.",
            "Nothing. The files themselves came from the cache.",
        ),
        MissReason::Bypassed => {
            ("The prefix cache is switched off.", "Start Tapri without --no-prefix-cache.")
        }
        MissReason::BelowOneBlock => (
            "The prompt is too short for the cache, which keeps blocks of tokens.",
            "Nothing. A prompt this short is read at once.",
        ),
        MissReason::BeingWritten => (
            "Another question was having the same files read at this moment.",
            "Nothing. The next question begins at once.",
        ),
        _ => return None,
    })
}
