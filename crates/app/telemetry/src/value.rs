//! Attributes, as the protocol has them.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};

fn any(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(any(value)), ..KeyValue::default() }
}

pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    pair(key, Value::StringValue(value.into()))
}

pub(crate) fn count(key: &str, value: u64) -> KeyValue {
    pair(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

pub(crate) fn number(key: &str, value: f64) -> KeyValue {
    pair(key, Value::DoubleValue(value))
}

pub(crate) fn truth(key: &str, value: bool) -> KeyValue {
    pair(key, Value::BoolValue(value))
}

pub(crate) fn list(key: &str, values: &[&str]) -> KeyValue {
    let values = values.iter().map(|value| any(Value::StringValue((*value).to_owned())));
    pair(key, Value::ArrayValue(ArrayValue { values: values.collect() }))
}
