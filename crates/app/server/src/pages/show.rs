//! Values as pages show them: elements with the plain value in an attribute, which the browser writes in the person's own
//! way, and an English text for those without scripts.

use std::fmt::{self, Write};

use askama::filters::HtmlSafe;
use jiff::Timestamp;

/// A whole number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(pub(crate) u64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<span class=\"number\" data-number=\"{}\">{}</span>", self.0, grouped(self.0))
    }
}

/// A time in seconds, from milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seconds(pub(crate) u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 as f64 / 1000.0;
        let digits = if seconds < 10.0 { 2 } else { 1 };
        write!(
            f,
            "<span class=\"number\" data-seconds=\"{seconds:.3}\" data-digits=\"{digits}\">{seconds:.digits$} s</span>"
        )
    }
}

/// An amount of money, as a decimal number and its currency.
#[derive(Debug, Clone)]
pub(crate) struct Amount<'a> {
    pub(crate) amount: &'a str,
    pub(crate) currency: &'a str,
}

impl fmt::Display for Amount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (amount, currency) = (Escaped(self.amount), Escaped(self.currency));
        // Costs of single questions are small parts of a unit.
        let shown = self.amount.parse::<f64>().map(|value| format!("{value:.4}"));
        let shown = shown.unwrap_or_else(|_| self.amount.to_owned());
        write!(
            f,
            "<span class=\"number\" data-money=\"{amount}\" data-currency=\"{currency}\">{} {currency}</span>",
            Escaped(&shown)
        )
    }
}

/// A moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = self.0.strftime("%Y-%m-%dT%H:%M:%SZ");
        let shown = self.0.strftime("%Y-%m-%d %H:%M UTC");
        write!(f, "<time datetime=\"{exact}\" data-moment=\"{exact}\">{shown}</time>")
    }
}

/// Text that may stand in HTML: in an element or in a quoted attribute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Each writes nothing but numbers, its own tags and what it escaped.
impl HtmlSafe for Number {}
impl HtmlSafe for Seconds {}
impl HtmlSafe for Amount<'_> {}
impl HtmlSafe for Moment {}
impl HtmlSafe for Html {}

/// HTML that was put together of [`Escaped`] text, texts of the pages and the other types here.
#[derive(Debug, Clone)]
pub(crate) struct Html(pub(crate) String);

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// For a query: whatever isn't plainly harmless is written by its bytes.
pub(crate) fn encoded(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                written.push(char::from(byte));
            }
            byte => written.push_str(&format!("%{byte:02X}")),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_browser_gets() {
        assert_eq!(
            Number(30_745).to_string(),
            "<span class=\"number\" data-number=\"30745\">30,745</span>"
        );
        assert!(Seconds(124).to_string().ends_with(">0.12 s</span>"));
        let amount = Amount { amount: "0.01\"", currency: "<x>" }.to_string();
        assert!(!amount.contains("<x>") && amount.contains("&quot;"), "{amount}");
        assert_eq!(Escaped("<a href='&\">").to_string(), "&lt;a href=&#39;&amp;&quot;&gt;");
    }

    #[test]
    fn the_way_back_is_a_path_and_nothing_else() {
        assert_eq!(encoded("/calls?x=1&y=/\r\n"), "/calls%3Fx%3D1%26y%3D/%0D%0A");
    }
}
