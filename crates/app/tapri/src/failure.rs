//! An error with what to do about it and the exit code it means.

use std::fmt;

/// An error that a person can act on. Without one an error means exit code 1 and has no hint.
#[derive(Debug)]
pub(crate) struct Failure {
    source: anyhow::Error,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    /// Something failed.
    pub(crate) fn new(source: impl Into<anyhow::Error>, hint: Option<impl Into<String>>) -> Self {
        Failure { source: source.into(), hint: hint.map(Into::into), code: 1 }
    }

    /// The command was used wrongly: exit code 2.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure { source: anyhow::Error::msg(message.into()), hint: Some(hint.into()), code: 2 }
    }

    /// The same with another exit code.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Failure { code, ..self }
    }

    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.source()
    }
}

/// An error and its causes in one line; a cause that its effect quotes already is left out.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}
