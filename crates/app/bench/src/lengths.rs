//! Questions of several lengths about a file that was read: is there a length from which an answer waits longer than its tokens
//! explain?

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use serde::Serialize;

use crate::InputArgs;
use crate::client::complete;
use crate::contender::TurnArgs;
use crate::report;
use crate::session::Session;
use crate::statistics::Spread;

/// Characters of English to a token, to begin with; then what the server itself counts.
const CHARACTERS_A_TOKEN: f64 = 4.0;

#[derive(Args)]
pub(crate) struct LengthsArgs {
    #[command(flatten)]
    turns: TurnArgs,
    /// The questions' lengths, in tokens; what they really had is printed.
    #[arg(long, value_delimiter = ',', default_value = "5,20,64,200,1000")]
    tokens: Vec<usize>,
    /// How many questions of each length are asked.
    #[arg(long, default_value_t = 5)]
    each: usize,
    /// How much of the file is used, in characters, cut at a line's end; 0 for all of it.
    #[arg(long, default_value_t = 0)]
    characters: usize,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// One question.
#[derive(Debug, Clone, Copy, Serialize)]
struct Asked {
    /// How long it was to be, in tokens.
    wanted: usize,
    /// How many tokens its prompt had more than one with the shortest question.
    tokens: u64,
    ttft_seconds: f64,
}

/// A server's questions, of all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measured {
    name: String,
    questions: Vec<Asked>,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Lengths {
    tokens: Vec<usize>,
    servers: Vec<Measured>,
}

impl LengthsArgs {
    pub(crate) fn run(&self) -> Result<Lengths> {
        ensure!(
            self.each >= 1 && !self.tokens.is_empty() && !self.tokens.contains(&0),
            "--tokens needs lengths of at least 1, and --each at least 1"
        );
        let contenders = self.turns.contenders()?;
        let (session, _) = self.input.session(self.characters)?;
        let words: Vec<&str> = session.questions.iter().flat_map(|q| q.split(' ')).collect();
        let results = self.turns.measure(&contenders, |_, server, label| {
            self.ask(&session, &words, &server.url, label)
        })?;
        let servers = results
            .into_iter()
            .map(|(name, rounds)| Measured { name, questions: rounds.concat() })
            .collect();
        Ok(Lengths { tokens: self.tokens.clone(), servers })
    }

    fn ask(&self, session: &Session, words: &[&str], url: &str, label: &str) -> Result<Vec<Asked>> {
        let bar = report::progress(self.each * self.tokens.len() + 1, label);
        let ask = |question: &str| {
            complete(url, session.model.as_deref(), &session.prompt(question), 1, None)
        };
        // Reads the file, and tells what a prompt has without a question.
        let without = ask("").context("let it read the file")?.prompt_tokens;
        let mut characters_a_token = CHARACTERS_A_TOKEN;
        let mut asked = Vec::new();
        for number in 0..self.each {
            for &wanted in &self.tokens {
                // Each from another word on, so that none finds more than the file.
                let from = number * 31 + wanted * 7;
                let length = wanted as f64 * characters_a_token;
                let question = text(words, from, length as usize);
                let call = ask(&question).with_context(|| format!("ask {wanted} tokens"))?;
                bar.inc(1);
                let tokens = call.prompt_tokens.saturating_sub(without);
                if tokens > 0 {
                    characters_a_token = question.len() as f64 / tokens as f64;
                }
                asked.push(Asked { wanted, tokens, ttft_seconds: call.ttft_seconds });
            }
        }
        bar.finish_and_clear();
        Ok(asked)
    }
}

/// About so many characters of words, from one of them on, over and over.
fn text(words: &[&str], from: usize, characters: usize) -> String {
    let mut text = String::new();
    for word in words.iter().cycle().skip(from % words.len().max(1)) {
        if !text.is_empty() {
            if text.len() + word.len() / 2 >= characters {
                break;
            }
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

impl Measured {
    fn of(&self, wanted: usize, value: impl Fn(&Asked) -> f64) -> Option<Spread> {
        let samples: Vec<f64> =
            self.questions.iter().filter(|q| q.wanted == wanted).map(value).collect();
        Spread::of(&samples)
    }
}

/// For each length, the first token's time at each server, and ours over the best of the others.
pub(crate) fn table(lengths: &Lengths) -> String {
    let mut table = Table::new();
    let mut header = vec!["question, tokens".to_owned()];
    header.extend(lengths.servers.iter().map(|s| format!("{}, TTFT in ms", s.name)));
    header.extend(["best rival".to_owned(), "ratio".to_owned()]);
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    for &wanted in &lengths.tokens {
        let ttft = |s: &Measured| s.of(wanted, |q| q.ttft_seconds * 1e3);
        let Some((ours, rivals)) = lengths.servers.split_first() else { continue };
        let tokens = ours.of(wanted, |q| q.tokens as f64);
        let mut row = vec![tokens.map_or_else(String::new, |t| format!("{:.0}", t.median))];
        row.extend(lengths.servers.iter().map(|s| ttft(s).map_or_else(String::new, |v| v.text(1))));
        let best = rivals
            .iter()
            .filter_map(|s| Some((ttft(s)?.median, s.name.clone())))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        if let (Some((theirs, name)), Some(ours)) = (best, ttft(ours)) {
            row.extend([name, format!("{:.3}", ours.median / theirs)]);
        }
        table.add_row(row);
    }
    table.to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_about_as_long_as_asked_and_begins_where_asked() {
        let words = ["one", "two", "three"];
        assert_eq!(text(&words, 1, 3), "two");
        assert_eq!(text(&words, 4, 14), "two three one");
        let long = text(&words, 0, 4000);
        assert!((3995..4005).contains(&long.len()), "{}", long.len());
        assert_eq!(text(&words, 0, 0), "one");
    }

    #[test]
    fn the_table_compares_with_the_best_of_the_others() {
        let measured = |name: &str, ms: f64| Measured {
            name: name.to_owned(),
            questions: [(5, 6, 1.0), (5, 6, 3.0), (5, 6, 2.0), (64, 61, 10.0)]
                .map(|(wanted, tokens, factor)| Asked {
                    wanted,
                    tokens,
                    ttft_seconds: ms * factor / 1e3,
                })
                .to_vec(),
        };
        let servers = vec![measured("ours", 1.0), measured("a", 4.0), measured("b", 5.0)];
        let text = table(&Lengths { tokens: vec![5, 64], servers });
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(2)
            .map(|line| line.split('|').map(str::trim).filter(|c| !c.is_empty()).collect())
            .collect();
        assert_eq!(
            rows[0],
            ["6", "2.0 (1.0-3.0)", "8.0 (4.0-12.0)", "10.0 (5.0-15.0)", "a", "0.250"]
        );
        assert_eq!(rows[1][0], "61");
    }
}
