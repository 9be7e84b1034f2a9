//! The prices of many models.

use std::collections::BTreeMap;
use std::io::Read;

use jiff::civil::Date;

use crate::prices::{Format, PriceError, PriceList, file};

/// The snapshot that comes with Tapri, as [`file::to_json`] wrote it; `data/prices/SOURCE.txt` says from what.
const BUNDLED: &[u8] = include_bytes!("../../data/prices/prices.json.gz");

/// How many names an unknown model is answered with.
const NAMED: usize = 5;

/// Price lists by model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceBook {
    /// Its name, which is the name of its lists too.
    pub name: String,
    /// The currency of lists that don't name their own.
    pub currency: String,
    /// The day it was made.
    pub date: Option<Date>,
    /// Where it comes from.
    pub source: Option<String>,
    models: BTreeMap<String, PriceList>,
    /// A list that holds for every model that has none.
    any: Option<Box<PriceList>>,
}

/// A model that a book has no prices for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the price list '{book}' has no model '{model}'{}", near(nearest))]
pub struct UnknownModel {
    /// The model that was asked for.
    pub model: String,
    /// The book's name.
    pub book: String,
    /// The nearest names it has.
    pub nearest: Vec<String>,
}

fn near(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; near it are {}", names.join(", ")) }
}

impl From<PriceList> for PriceBook {
    /// A book in which every model has these prices.
    fn from(list: PriceList) -> Self {
        PriceBook {
            name: list.name.clone(),
            currency: list.currency.clone(),
            date: list.date,
            source: list.source.clone(),
            models: BTreeMap::new(),
            any: Some(Box::new(list)),
        }
    }
}

impl PriceBook {
    /// An empty book, in US dollars.
    #[must_use]
    pub fn new(name: String) -> Self {
        PriceBook {
            name,
            currency: "USD".to_owned(),
            date: None,
            source: None,
            models: BTreeMap::new(),
            any: None,
        }
    }

    /// The snapshot that comes with Tapri.
    ///
    /// # Errors
    /// None that a build which passed its tests returns: it is read as any file.
    pub fn bundled() -> Result<Self, PriceError> {
        PriceBook::read("bundled", BUNDLED, Format::Json)
    }

    /// Reads a file, gzipped or not.
    ///
    /// # Errors
    /// [`PriceError`]; what isn't text is a [`PriceError::Syntax`].
    pub fn read(file: &str, bytes: &[u8], format: Format) -> Result<Self, PriceError> {
        let mut text = String::new();
        crate::lines::decompressed(bytes)
            .and_then(|reader| reader.take(crate::lines::MAX_LINE as u64).read_to_string(&mut text))
            .map_err(|error| PriceError::Syntax {
                file: file.to_owned(),
                format: "text",
                message: error.to_string(),
            })?;
        file::read(file, &text, format)
    }

    /// Adds a model's list, or replaces it. A list without a model holds for every model.
    pub fn insert(&mut self, list: PriceList) {
        match &list.model {
            Some(model) => {
                self.models.insert(model.clone(), list);
            }
            None => self.any = Some(Box::new(list)),
        }
    }

    /// This book with another on top, whose lists win.
    #[must_use]
    pub fn under(mut self, over: PriceBook) -> Self {
        self.models.extend(over.models);
        self.any = over.any.or(self.any);
        self
    }

    /// This book under another name, with the day and the place it was seen at.
    #[must_use]
    pub fn labelled(mut self, name: &str, date: Date, source: &str) -> Self {
        for list in self.models.values_mut() {
            name.clone_into(&mut list.name);
            list.date = Some(date);
            list.source = Some(source.to_owned());
        }
        PriceBook {
            name: name.to_owned(),
            date: Some(date),
            source: Some(source.to_owned()),
            ..self
        }
    }

    /// Whether no model has a price.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.models.is_empty() && self.any.is_none()
    }

    /// How many models have a list of their own.
    #[must_use]
    pub fn len(&self) -> usize {
        self.models.len()
    }

    /// The lists of models, by name.
    pub fn models(&self) -> impl Iterator<Item = &PriceList> {
        self.models.values()
    }

    /// Models whose name has all these words in it, by name.
    pub fn search<'a>(&'a self, words: &'a [String]) -> impl Iterator<Item = &'a PriceList> {
        self.models.iter().filter_map(|(name, list)| {
            let name = name.to_lowercase();
            words.iter().all(|word| name.contains(&word.to_lowercase())).then_some(list)
        })
    }

    /// A model's list. In this order: the name itself; in any case of letters; without providers before it
    /// (`openai/gpt-x`); without a date or `latest` behind it; with a provider before it, where all of those cost
    /// the same. The list's `model` says which it was.
    ///
    /// # Errors
    /// [`UnknownModel`], with the nearest names.
    pub fn find(&self, model: &str) -> Result<&PriceList, UnknownModel> {
        self.own(model).or(self.any.as_deref()).ok_or_else(|| UnknownModel {
            model: model.to_owned(),
            book: self.name.clone(),
            nearest: self.nearest(model),
        })
    }

    fn own(&self, model: &str) -> Option<&PriceList> {
        let model = model.trim();
        for name in without_providers(model) {
            if let Some(list) = self.named(name).or_else(|| self.named(undated(name)?)) {
                return Some(list);
            }
        }
        let last = without_providers(model).last()?.to_lowercase();
        let mut sold = self.models.iter().filter(|(name, _)| {
            name.rsplit('/').next().is_some_and(|end| end.eq_ignore_ascii_case(&last))
        });
        let (_, first) = sold.next()?;
        sold.all(|(_, other)| other.sheets == first.sheets && other.currency == first.currency)
            .then_some(first)
    }

    fn named(&self, name: &str) -> Option<&PriceList> {
        self.models.get(name).or_else(|| self.models.get(&name.to_lowercase())).or_else(|| {
            self.models.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, list)| list)
        })
    }

    fn nearest(&self, model: &str) -> Vec<String> {
        let wanted = model.trim().to_lowercase();
        let end = wanted.rsplit('/').next().unwrap_or(&wanted);
        let mut near: Vec<(f64, usize, &String)> = self
            .models
            .keys()
            .map(|name| {
                let own = name.to_lowercase();
                let own_end = own.rsplit('/').next().unwrap_or(&own);
                let likeness =
                    strsim::jaro_winkler(&wanted, &own).max(strsim::jaro_winkler(end, own_end));
                (likeness, name.len(), name)
            })
            .filter(|(likeness, ..)| *likeness > 0.8)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(b.2)));
        near.into_iter().take(NAMED).map(|(.., name)| name.clone()).collect()
    }
}

/// The name, and what is left of it after each `/`.
fn without_providers(model: &str) -> impl Iterator<Item = &str> {
    std::iter::once(model).chain(model.match_indices('/').map(|(at, _)| &model[at + 1..]))
}

/// A name without `-2026-11-30`, `-20261130`, `@20261130`, `-latest` or `:latest` behind it.
fn undated(name: &str) -> Option<&str> {
    if let Some(bare) = name.strip_suffix("-latest").or_else(|| name.strip_suffix(":latest")) {
        return Some(bare);
    }
    let digits = name.bytes().rev().take_while(|b| b.is_ascii_digit() || *b == b'-').count();
    let (bare, date) = name.split_at(name.len() - digits);
    let date = date.trim_start_matches('-');
    let whole = date.bytes().filter(u8::is_ascii_digit).count() == 8
        && (date.len() == 8 || date.len() == 10);
    let bare = bare.trim_end_matches(['-', '@']);
    (whole && !bare.is_empty()).then_some(bare)
}

#[cfg(test)]
#[path = "book/tests.rs"]
mod tests;
