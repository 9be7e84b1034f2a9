//! A file of API keys: one line for each, `TENANT sha256:HASH`, with comments after `#`.
//!
//! It can be replaced while the server runs, and is read again on SIGHUP.

use super::key::KeyHash;

/// A line that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct LineError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it. Never quotes the line: a key may have been written there in the clear.
    pub what: &'static str,
}

/// The keys of a file, in its order.
pub fn parse(text: &str) -> Result<Vec<(String, KeyHash)>, LineError> {
    let mut keys = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or("").trim();
        if text.is_empty() {
            continue;
        }
        let wrong = |what| LineError { line, what };
        let mut words = text.split_whitespace();
        let (Some(tenant), Some(hash), None) = (words.next(), words.next(), words.next()) else {
            return Err(wrong("it should be a tenant's name and the hash of its key"));
        };
        let hash = hash.parse().map_err(|_| {
            wrong("the second word is not `sha256:` and 64 hexadecimal digits; `tapri keys hash` makes it from a key")
        })?;
        keys.push((tenant.to_owned(), hash));
    }
    Ok(keys)
}

/// A line of such a file.
pub fn line(tenant: &str, hash: KeyHash) -> String {
    format!("{tenant} {hash}\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let (one, two) = (KeyHash::of("one"), KeyHash::of("two"));
        let text = format!(
            "# keys\n\n{}  {}",
            line("red", one),
            line("blue", two).replace('\n', " # old\n")
        );
        assert_eq!(parse(&text).unwrap(), [("red".to_owned(), one), ("blue".to_owned(), two)]);
        assert_eq!(parse("").unwrap(), []);
        let error = parse("# a\nred tapri_secret").unwrap_err().to_string();
        assert!(error.starts_with("line 2: ") && !error.contains("tapri_secret"), "{error}");
        assert!(parse("red").is_err() && parse("a b c").is_err());
    }
}
