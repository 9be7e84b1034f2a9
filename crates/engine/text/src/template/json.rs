//! `tojson` as Hugging Face's libraries define it: Python's `json.dumps` without HTML escapes and with other than
//! ASCII characters left as they are.

use minijinja::{
    Error, ErrorKind, Value as Jinja,
    value::{Kwargs, Serde},
};
use serde_json::Value;

/// How a value is laid out.
struct Style {
    /// The text of one level of indentation; nothing for everything on one line.
    indent: Option<String>,
    comma: String,
    colon: String,
    ascii: bool,
    sorted: bool,
}

pub(super) fn tojson(value: Serde<Value>, options: Kwargs) -> Result<String, Error> {
    let indent: Option<Jinja> = options.get("indent")?;
    let separators: Option<Jinja> = options.get("separators")?;
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let sorted: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let indent = match indent {
        None => None,
        Some(indent) if indent.is_none() => None,
        Some(indent) => Some(match indent.as_str() {
            Some(text) => text.to_owned(),
            None => match usize::try_from(indent)? {
                width @ 0..=64 => " ".repeat(width),
                _ => {
                    return Err(Error::new(
                        ErrorKind::InvalidOperation,
                        "tojson's indent is above 64",
                    ));
                }
            },
        }),
    };
    let (comma, colon) = match separators.filter(|separators| !separators.is_none()) {
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some(separators) => {
            let texts: Vec<Jinja> = separators.try_iter()?.collect();
            match texts.iter().map(Jinja::as_str).collect::<Option<Vec<_>>>().as_deref() {
                Some([comma, colon]) => ((*comma).to_owned(), (*colon).to_owned()),
                _ => {
                    return Err(Error::new(
                        ErrorKind::InvalidOperation,
                        "tojson's separators must be two strings",
                    ));
                }
            }
        }
    };
    let style = Style {
        indent,
        comma,
        colon,
        ascii: ascii.unwrap_or(false),
        sorted: sorted.unwrap_or(false),
    };
    let mut out = String::new();
    style.write(&value.0, 0, &mut out);
    Ok(out)
}

impl Style {
    fn write(&self, value: &Value, depth: usize, out: &mut String) {
        match value {
            Value::String(text) => self.write_string(text, out),
            Value::Number(number) => out.push_str(&python_number(number)),
            Value::Array(values) => {
                self.write_items(('[', ']'), values, depth, out, |value, out| {
                    self.write(value, depth + 1, out)
                });
            }
            Value::Object(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                if self.sorted {
                    entries.sort_by_key(|(key, _)| *key);
                }
                self.write_items(('{', '}'), entries, depth, out, |(key, value), out| {
                    self.write_string(key, out);
                    out.push_str(&self.colon);
                    self.write(value, depth + 1, out);
                });
            }
            Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        }
    }

    fn write_items<I: IntoIterator>(
        &self,
        (open, close): (char, char),
        items: I,
        depth: usize,
        out: &mut String,
        write: impl Fn(I::Item, &mut String),
    ) {
        out.push(open);
        let mut is_empty = true;
        for item in items {
            if !is_empty {
                out.push_str(&self.comma);
            }
            is_empty = false;
            self.new_line(depth + 1, out);
            write(item, out);
        }
        if !is_empty {
            self.new_line(depth, out);
        }
        out.push(close);
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn write_string(&self, text: &str, out: &mut String) {
        // The escapes of `serde_json` are Python's.
        let quoted = Value::from(text).to_string();
        if !self.ascii {
            return out.push_str(&quoted);
        }
        for character in quoted.chars() {
            if character.is_ascii() {
                out.push(character);
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

/// Python writes the exponent of large and small floats with a sign and at least two digits.
fn python_number(number: &serde_json::Number) -> String {
    let text = number.to_string();
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let digits = digits.strip_suffix(".0").unwrap_or(digits);
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}
