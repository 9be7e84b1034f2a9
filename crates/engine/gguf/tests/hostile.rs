//! Files that lie, one test a lie; then files that are changed and cut at random.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../../tests/effort.rs"]
mod effort;

use proptest::prelude::*;
use tapri_gguf::{
    Gguf, GgufError, MetaValue, MetadataError, TensorError, TensorType, ValueType, Writer,
};

/// A file with a bit of everything.
fn valid() -> Writer {
    let mut writer = Writer::new();
    writer
        .set("general.architecture", "llama")
        .set("count", 3u32)
        .set("scale", 0.5f32)
        .set("flag", true);
    writer.set("words", ["one", "two", ""].as_slice()).set("scores", [1.0f32, -2.0].as_slice());
    let inner = MetaValue::array(ValueType::U8, [1u8.into(), 2u8.into()]);
    writer.set("nested", MetaValue::array(ValueType::Array, [inner.clone(), inner]));
    writer.tensor("a", &[4, 2], TensorType::F32, &[1; 32]).unwrap();
    writer.tensor("b", &[32, 3], TensorType::Q8_0, &[2; 102]).unwrap();
    writer
}

fn error(bytes: Vec<u8>) -> GgufError {
    Gguf::from_bytes(bytes).unwrap_err()
}

/// The file's header, and then whatever is wanted.
fn header(version: u32, tensors: u64, entries: u64, rest: &[u8]) -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    file.extend(version.to_le_bytes());
    file.extend(tensors.to_le_bytes());
    file.extend(entries.to_le_bytes());
    file.extend(rest);
    file
}

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

#[test]
fn both_versions_and_any_alignment_open() {
    for (version, alignment) in [(2, 32), (3, 1), (3, 32), (3, 4096)] {
        let mut writer = Writer::new();
        writer.version(version).alignment(alignment).set("key", "value");
        writer.tensor("a", &[3], TensorType::F32, &[7; 12]).unwrap();
        writer.tensor("b", &[], TensorType::F32, &[8; 4]).unwrap_err();
        writer.tensor("b", &[1], TensorType::F32, &[8; 4]).unwrap();
        let gguf = Gguf::from_bytes(writer.to_bytes()).unwrap();
        assert_eq!(gguf.version(), version);
        assert_eq!(gguf.tensor("a").unwrap().data, [7; 12]);
        assert_eq!(gguf.tensor("b").unwrap().data, [8; 4]);
        assert_eq!(gguf.file_bytes(), writer.to_bytes());
    }
}

#[test]
fn values_come_back_and_wrong_types_are_named() {
    let gguf = Gguf::from_bytes(valid().to_bytes()).unwrap();
    let metadata = gguf.metadata();
    assert_eq!(metadata.keys().count(), 7);
    assert_eq!(metadata.u64("count").unwrap(), 3);
    assert!(metadata.bool("flag").unwrap());
    assert_eq!(metadata.strs("words").unwrap().iter().collect::<Vec<_>>(), ["one", "two", ""]);
    assert_eq!(metadata.f32s("scores").unwrap(), [1.0, -2.0]);
    assert_eq!(metadata.find::<u32>("nothing").unwrap(), None);
    let inner: Vec<_> =
        metadata.array("nested").unwrap().iter().map(|value| value.value_type()).collect();
    assert_eq!(inner, [ValueType::Array, ValueType::Array]);

    let message = |result: Result<(), MetadataError>| result.unwrap_err().to_string();
    assert_eq!(
        message(metadata.u32("nothing").map(drop)),
        "`nothing` is missing (a u32 is needed)"
    );
    assert_eq!(
        message(metadata.str("words").map(drop)),
        "`words` is an array of 3 string, but a string is needed"
    );
    assert_eq!(
        message(metadata.u32("general.architecture").map(drop)),
        "`general.architecture` is a string (\"llama\"), but a u32 is needed"
    );
    assert_eq!(
        message(metadata.strs("scores").map(drop)),
        "`scores` is an array of f32, but an array of string is needed"
    );
    assert_eq!(
        message(metadata.f32("count").map(drop)),
        "`count` is a u32 (3), but a f32 is needed"
    );
}

#[test]
fn integers_are_taken_where_they_fit() {
    let mut writer = Writer::new();
    writer
        .set("minus", -1i8)
        .set("large", u64::MAX)
        .set("short", 7u16)
        .set("numbers", [1i64, 1 << 40].as_slice());
    let gguf = Gguf::from_bytes(writer.to_bytes()).unwrap();
    assert_eq!(gguf.metadata().u32("short").unwrap(), 7);
    assert_eq!(gguf.metadata().u64("large").unwrap(), u64::MAX);
    let message = gguf.metadata().u32("minus").unwrap_err().to_string();
    assert_eq!(message, "`minus` is -1, which does not fit a u32");
    assert!(gguf.metadata().u32s("numbers").is_err());
    assert_eq!(gguf.metadata().get::<Vec<u64>>("numbers").unwrap(), [1, 1 << 40]);
}

#[test]
fn every_cut_is_an_error() {
    let file = valid().to_bytes();
    for len in 0..file.len() {
        Gguf::from_bytes(file[..len].to_vec()).unwrap_err();
    }
    Gguf::from_bytes(file).unwrap();
}

#[test]
fn other_files() {
    assert!(matches!(error(b"".to_vec()), GgufError::Truncated { .. }));
    assert!(matches!(error(b"GGU".to_vec()), GgufError::Truncated { .. }));
    assert!(matches!(error(b"PK\x03\x04 a zip file".to_vec()), GgufError::Magic(_)));
    assert!(matches!(error(header(1, 0, 0, &[])), GgufError::Version(1)));
    assert!(matches!(error(header(4, 0, 0, &[])), GgufError::Version(4)));
    assert!(matches!(error(header(0, 0, 0, &[])), GgufError::Version(0)));
    assert!(matches!(error(header(3u32.swap_bytes(), 0, 0, &[])), GgufError::BigEndian));
}

#[test]
fn folders_and_missing_or_empty_files() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Gguf::open(folder.path()).unwrap_err(), GgufError::Io(_)));
    assert!(matches!(Gguf::open(folder.path().join("none")).unwrap_err(), GgufError::Io(_)));
    let empty = folder.path().join("empty.gguf");
    std::fs::write(&empty, b"").unwrap();
    assert!(matches!(Gguf::open(&empty).unwrap_err(), GgufError::Truncated { .. }));
    let file = folder.path().join("file.gguf");
    valid().write(&file).unwrap();
    assert_eq!(Gguf::open(&file).unwrap().tensors().len(), 2);
}

#[test]
fn counts_larger_than_the_file() {
    for count in [1, 1 << 20, 1 << 62, u64::MAX] {
        assert!(matches!(
            error(header(3, count, 0, &[])),
            GgufError::Count { what: "tensors", .. }
        ));
        assert!(matches!(
            error(header(3, 0, count, &[])),
            GgufError::Count { what: "metadata entries", .. }
        ));
        let array =
            [string(b"k"), 9u32.to_le_bytes().to_vec(), 6u32.to_le_bytes().to_vec()].concat();
        let entry = [array, count.to_le_bytes().to_vec()].concat();
        assert!(
            matches!(
                error(header(3, 0, 1, &entry)),
                GgufError::Count { what: "array entries", .. }
            ),
            "{count}"
        );
    }
}

#[test]
fn lengths_that_overflow() {
    for len in [100, 1 << 40, u64::MAX - 8, u64::MAX] {
        let key = [len.to_le_bytes().to_vec(), b"some more bytes".to_vec()].concat();
        assert!(matches!(
            error(header(3, 0, 1, &key)),
            GgufError::Truncated { what: "a metadata key", .. }
        ));
        let value =
            [string(b"k"), 8u32.to_le_bytes().to_vec(), len.to_le_bytes().to_vec()].concat();
        assert!(matches!(
            error(header(3, 0, 1, &value)),
            GgufError::Truncated { what: "a metadata value", .. }
        ));
    }
}

#[test]
fn unknown_value_types_and_bad_booleans() {
    let entry = [string(b"k"), 13u32.to_le_bytes().to_vec(), vec![0; 8]].concat();
    assert!(matches!(error(header(3, 0, 1, &entry)), GgufError::ValueType { id: 13, .. }));
    let entry =
        [string(b"k"), 9u32.to_le_bytes().to_vec(), u32::MAX.to_le_bytes().to_vec(), vec![0; 8]]
            .concat();
    assert!(matches!(error(header(3, 0, 1, &entry)), GgufError::ValueType { id: u32::MAX, .. }));
    let entry = [string(b"k"), 7u32.to_le_bytes().to_vec(), vec![2]].concat();
    assert!(matches!(error(header(3, 0, 1, &entry)), GgufError::Bool { value: 2, .. }));
    let array = [string(b"k"), 9u32.to_le_bytes().to_vec(), 7u32.to_le_bytes().to_vec()].concat();
    let entry = [array, 2u64.to_le_bytes().to_vec(), vec![1, 9]].concat();
    assert!(matches!(error(header(3, 0, 1, &entry)), GgufError::Bool { value: 9, .. }));
}

#[test]
fn arrays_nested_too_deep() {
    let nest = |depth: usize| {
        (1..depth).fold(MetaValue::from([1u8].as_slice()), |inner, _| {
            MetaValue::array(ValueType::Array, [inner])
        })
    };
    let mut writer = Writer::new();
    writer.set("deep", nest(4));
    Gguf::from_bytes(writer.to_bytes()).unwrap();
    for depth in [5, 1000] {
        let mut writer = Writer::new();
        writer.set("deep", nest(depth));
        assert!(matches!(error(writer.to_bytes()), GgufError::Nesting { limit: 4, .. }));
    }
}

#[test]
fn duplicates() {
    let mut writer = valid();
    writer.set("count", 4u32);
    assert!(matches!(error(writer.to_bytes()), GgufError::DuplicateKey(key) if key == "count"));
    let mut writer = valid();
    writer.tensor("a", &[1], TensorType::F32, &[0; 4]).unwrap();
    assert!(matches!(error(writer.to_bytes()), GgufError::DuplicateTensor(name) if name == "a"));
}

#[test]
fn invalid_utf8() {
    let entry = [string(b"k\xff"), 7u32.to_le_bytes().to_vec(), vec![1]].concat();
    assert!(matches!(
        error(header(3, 0, 1, &entry)),
        GgufError::Utf8 { what: "a metadata key", offset: 24 }
    ));
    let mut writer = Writer::new();
    writer.raw_tensor(b"\xc3", &[1], 0, 0);
    assert!(matches!(error(writer.to_bytes()), GgufError::Utf8 { what: "a tensor's name", .. }));

    // A value is only refused when it is read as text.
    let mut writer = Writer::new();
    writer.set("bad", MetaValue::string(b"\xff"));
    writer.set(
        "list",
        MetaValue::array(ValueType::Str, ["ok".into(), MetaValue::string(b"\xe2\x82")]),
    );
    let gguf = Gguf::from_bytes(writer.to_bytes()).unwrap();
    assert_eq!(gguf.metadata().str("bad").unwrap_err().to_string(), "`bad` is not valid UTF-8");
    assert_eq!(
        gguf.metadata().strs("list").unwrap_err().to_string(),
        "`list` is not valid UTF-8 (entry 1)"
    );
}

#[test]
fn bad_alignment() {
    for (value, shown) in [
        (MetaValue::from(0u32), "0"),
        (33u32.into(), "33"),
        (u32::MAX.into(), "4294967295"),
        (32u64.into(), "a u64 (32)"),
        ("32".into(), "a string (\"32\")"),
    ] {
        let mut writer = valid();
        writer.set("general.alignment", value);
        assert!(matches!(error(writer.to_bytes()), GgufError::Alignment(found) if found == shown));
    }
    let mut writer = Writer::new();
    writer.set("general.alignment", 1u32 << 31).raw_tensor(b"far", &[1], 0, 0);
    assert!(matches!(error(writer.to_bytes()), GgufError::OutsideFile { .. }));
}

#[test]
fn impossible_shapes() {
    let shape = |dims: &[u64], kind: TensorType| {
        let mut writer = Writer::new();
        writer.raw_tensor(b"t", dims, kind.id(), 0);
        match error(writer.to_bytes()) {
            GgufError::Shape { problem, .. } => problem,
            other => panic!("{other}"),
        }
    };
    assert_eq!(shape(&[1, 1, 1, 1, 1], TensorType::F32), "5 dimensions, at most 4 are allowed");
    assert_eq!(shape(&[4, 0], TensorType::F32), "a dimension is zero");
    assert_eq!(shape(&[u64::MAX, 2], TensorType::F32), "its number of values overflows");
    assert_eq!(shape(&[1 << 32, 1 << 32], TensorType::F32), "its number of values overflows");
    assert_eq!(shape(&[1 << 62, 3], TensorType::F32), "its number of bytes overflows");
    assert_eq!(
        shape(&[33, 2], TensorType::Q8_0),
        "rows of 33 values are not whole Q8_0 blocks of 32"
    );
    assert_eq!(
        shape(&[128], TensorType::Q4K),
        "rows of 128 values are not whole Q4_K blocks of 256"
    );
    let mut writer = Writer::new();
    writer.raw_tensor(b"t", &vec![1; 100_000], 0, 0);
    assert!(matches!(error(writer.to_bytes()), GgufError::Shape { .. }));
}

#[test]
fn data_outside_the_file_misaligned_or_shared() {
    for offset in [64, 1 << 40, u64::MAX - 31] {
        let mut writer = Writer::new();
        writer.raw_tensor(b"t", &[1], 0, offset);
        assert!(matches!(error(writer.to_bytes()), GgufError::OutsideFile { .. }), "{offset}");
    }
    let mut writer = Writer::new();
    writer.tensor("a", &[16], TensorType::F32, &[0; 64]).unwrap().raw_tensor(b"b", &[1], 0, 4);
    assert!(matches!(
        error(writer.to_bytes()),
        GgufError::Misaligned { offset: 4, alignment: 32, .. }
    ));
    let mut writer = Writer::new();
    writer.tensor("a", &[16], TensorType::F32, &[0; 64]).unwrap().raw_tensor(b"b", &[1], 0, 32);
    let shown = error(writer.to_bytes()).to_string();
    assert_eq!(shown, "tensors `a` and `b` overlap");
    let mut writer = Writer::new();
    writer.tensor("a", &[16], TensorType::F32, &[0; 64]).unwrap().raw_tensor(b"b", &[9], 0, 32);
    assert!(
        matches!(error(writer.to_bytes()), GgufError::OutsideFile { .. }),
        "the last byte counts"
    );
}

#[test]
fn an_unknown_type_is_an_error_when_its_tensor_is_asked_for() {
    let mut writer = valid();
    writer.raw_tensor(b"new", &[5, 5], 77, 0);
    let gguf = Gguf::from_bytes(writer.to_bytes()).unwrap();
    assert_eq!(gguf.tensor("a").unwrap().data.len(), 32);
    assert_eq!(gguf.tensor_names().collect::<Vec<_>>(), ["a", "b", "new"]);
    assert_eq!(gguf.tensors().filter(Result::is_ok).count(), 2);
    let unknown = gguf.tensor("new").unwrap_err();
    assert_eq!(unknown, TensorError::UnknownType { name: "new".to_owned(), id: 77 });
    assert_eq!(unknown.to_string(), "tensor `new` has the unknown type id 77");
    assert_eq!(gguf.tensor("c").unwrap_err().to_string(), "tensor `c` is missing");
    assert_eq!(gguf.find_tensor("c").unwrap(), None);
}

/// Reads everything that a file offers.
fn read_all(gguf: &Gguf) -> usize {
    let metadata = gguf.metadata();
    let mut read = 0;
    for key in metadata.keys() {
        let value = metadata.value(key).unwrap();
        read += format!("{value:?}").len();
        read += metadata.strs(key).map_or(0, |texts| texts.iter().map(str::len).sum());
        read += metadata.f32s(key).map_or(0, |numbers| numbers.len());
        read += metadata.u32(key).map_or(0, |_| 1) + metadata.str(key).map_or(0, str::len);
        read += metadata.array(key).map_or(0, |array| array.iter().count());
    }
    for tensor in gguf.tensors().flatten() {
        read += tensor.data.iter().map(|byte| *byte as usize).sum::<usize>() + tensor.columns();
        assert_eq!(
            tensor.kind.row_bytes(tensor.columns()).unwrap() * tensor.rows(),
            tensor.data.len()
        );
    }
    read
}

#[test]
fn a_changed_file_is_an_error_or_can_be_read() {
    let byte = (any::<prop::sample::Index>(), any::<u8>());
    let number = prop_oneof![Just(u64::MAX), Just(1 << 62), any::<u64>()];
    let word = (any::<prop::sample::Index>(), number);
    let changes = (
        proptest::collection::vec(byte, 1..8),
        proptest::collection::vec(word, 0..2),
        proptest::option::of(any::<prop::sample::Index>()),
    );
    effort::check(2000, &changes, |(bytes, words, cut)| {
        let mut file = valid().to_bytes();
        for (index, byte) in bytes {
            let index = index.index(file.len());
            file[index] = byte;
        }
        for (index, word) in words {
            let index = index.index(file.len() - 8);
            file[index..index + 8].copy_from_slice(&word.to_le_bytes());
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        if let Ok(gguf) = Gguf::from_bytes(file) {
            read_all(&gguf);
        }
        Ok(())
    });
}

#[test]
fn random_bytes_are_an_error_or_can_be_read() {
    let files = (proptest::collection::vec(any::<u8>(), 0..300), 0u64..4);
    effort::check(2000, &files, |(bytes, entries)| {
        prop_assert!(Gguf::from_bytes(bytes.clone()).is_err() || bytes.starts_with(b"GGUF"));
        if let Ok(gguf) = Gguf::from_bytes(header(3, 0, entries, &bytes)) {
            read_all(&gguf);
        }
        Ok(())
    });
}
