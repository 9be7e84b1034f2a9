//! Durations as seconds in JSON: `"ttft_seconds": 0.112`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    duration(f64::deserialize(from)?)
}

fn duration<E: serde::de::Error>(seconds: f64) -> Result<Duration, E> {
    Duration::try_from_secs_f64(seconds).map_err(E::custom)
}

/// The same where there may be none.
pub(crate) mod maybe {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        it: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match it {
            Some(duration) => to.serialize_some(&duration.as_secs_f64()),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(from)?.map(super::duration).transpose()
    }
}
