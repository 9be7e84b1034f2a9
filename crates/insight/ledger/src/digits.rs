//! Fingerprints as 16 hexadecimal digits in JSON: numbers of 64 bits lose their end in many readers.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(print: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{print:016x}"))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    parse(&String::deserialize(from)?)
}

fn parse<E: Error>(digits: &str) -> Result<u64, E> {
    u64::from_str_radix(digits, 16).map_err(E::custom)
}

/// The same for a list.
pub(crate) mod list {
    use super::{Deserialize, Deserializer, Serializer};
    use serde::ser::SerializeSeq;

    pub(crate) fn serialize<S: Serializer>(prints: &[u64], to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(prints.len()))?;
        for print in prints {
            list.serialize_element(&format_args!("{print:016x}"))?;
        }
        list.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let list = Vec::<String>::deserialize(from)?;
        list.iter().map(|digits| super::parse(digits)).collect()
    }
}
