//! Where the questions come from.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write, stderr, stdin};
use std::path::Path;

use anyhow::Result;

use crate::cli::AskArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// The questions, in order.
pub(crate) enum Questions {
    /// From a file, or from the command line.
    Given(VecDeque<String>),
    /// Typed as they come to mind.
    Typed,
}

impl Questions {
    pub(crate) fn new(args: &AskArgs) -> Result<Self> {
        let mut given = VecDeque::new();
        if let Some(path) = &args.questions {
            given.extend(from_file(path)?);
        }
        for question in &args.ask {
            let question = question.trim();
            if question.is_empty() {
                return Err(Failure::usage(
                    "--ask has an empty question",
                    "write --ask 'What is this about?'",
                )
                .into());
            }
            given.push_back(question.to_owned());
        }
        if !given.is_empty() {
            return Ok(Questions::Given(given));
        }
        if stdin().is_terminal() {
            return Ok(Questions::Typed);
        }
        let lines: Result<Vec<_>, io::Error> = stdin().lock().lines().collect();
        let lines = lines.map_err(|error| {
            Failure::new(error, Some("questions on stdin must be UTF-8 text, one a line"))
        })?;
        given.extend(
            lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).map(str::to_owned),
        );
        if given.is_empty() {
            let hint = "give --questions FILE, or --ask 'What is this about?', or write questions to stdin";
            return Err(Failure::usage("there is no question", hint).into());
        }
        Ok(Questions::Given(given))
    }

    /// The next question; `None` at the end.
    pub(crate) async fn next(&mut self, interrupt: &Interrupt) -> Result<Option<String>> {
        match self {
            Questions::Given(questions) => Ok(questions.pop_front()),
            Questions::Typed => typed(interrupt).await,
        }
    }
}

async fn typed(interrupt: &Interrupt) -> Result<Option<String>> {
    loop {
        write!(stderr(), "question> ")?;
        stderr().flush()?;
        let line = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            stdin().read_line(&mut line).map(|read| (read > 0).then_some(line))
        });
        let line = tokio::select! {
            line = line => line??,
            () = interrupt.pressed() => None,
        };
        let Some(line) = line else {
            writeln!(stderr())?;
            return Ok(None);
        };
        if !line.trim().is_empty() {
            return Ok(Some(line.trim().to_owned()));
        }
    }
}

fn from_file(path: &Path) -> Result<Vec<String>> {
    let bytes = fs::read(path).map_err(|error| {
        Failure::new(
            anyhow::Error::new(error).context(format!("failed to read {}", path.display())),
            None::<&str>,
        )
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        Failure::new(
            anyhow::anyhow!(
                "{} is not UTF-8 text: byte {offset} is not part of a character",
                path.display()
            ),
            Some("questions are UTF-8 text, one a line"),
        )
    })?;
    let questions: Vec<_> = text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    if questions.is_empty() {
        return Err(Failure::new(
            anyhow::anyhow!("{} has no questions", path.display()),
            Some("write one question a line"),
        )
        .into());
    }
    Ok(questions)
}
