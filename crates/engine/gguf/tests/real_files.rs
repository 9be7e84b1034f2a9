//! The two development models open, and what the other crates rely on is in them.
#![allow(clippy::unwrap_used)]

use tapri_gguf::{Gguf, TensorType};

#[test]
fn gemma_opens() {
    let gguf = Gguf::open(tapri_registry::test_model("gemma-3-270m")).unwrap();
    let metadata = gguf.metadata();
    assert_eq!(metadata.str("general.architecture").unwrap(), "gemma3");
    assert_eq!(metadata.u32("gemma3.block_count").unwrap(), 18);
    assert_eq!(metadata.f32("gemma3.rope.freq_base").unwrap(), 1e6);
    assert_eq!(metadata.strs("tokenizer.ggml.tokens").unwrap().len(), 262_144);
    assert_eq!(gguf.tensors().len(), 236);
    let embedding = gguf.tensor("token_embd.weight").unwrap();
    assert_eq!((embedding.dims, embedding.kind), (&[640, 262_144][..], TensorType::Q8_0));
    assert_eq!(embedding.data.as_ptr() as usize % 32, 0);
    let bytes: usize = gguf.tensors().map(|tensor| tensor.unwrap().data.len()).sum();
    assert!(bytes < gguf.file_bytes().len() && bytes > gguf.file_bytes().len() / 10 * 9);
}

/// What was released is read again, the same.
#[cfg(target_os = "linux")]
#[test]
fn released_bytes_come_back() {
    let gguf = Gguf::open(tapri_registry::test_model("smollm2")).unwrap();
    let resident = || {
        let path = std::fs::canonicalize(tapri_registry::test_model("smollm2")).unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let start = gguf.file_bytes().as_ptr().addr();
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&format!("{start:x}-")));
        assert!(lines.next().unwrap().ends_with(path.to_str().unwrap()));
        let line = lines.find(|line| line.starts_with("Rss:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
    };
    let sum =
        || gguf.file_bytes().iter().fold(0_u64, |sum, byte| sum * 31 % 65_521 + u64::from(*byte));
    let first = sum();
    assert!(resident() > gguf.file_bytes().len() / 10 * 9);
    gguf.release(gguf.tensor("token_embd.weight").unwrap().data);
    gguf.release(gguf.file_bytes());
    assert!(resident() < 1 << 20, "{} bytes are still there", resident());
    // Nothing of this file: nothing happens.
    gguf.release(&[0; 100]);
    assert_eq!(sum(), first);
    let copy = Gguf::from_bytes(std::fs::read(tapri_registry::test_model("smollm2")).unwrap());
    let copy = copy.unwrap();
    copy.release(copy.file_bytes());
    assert!(copy.file_bytes() == gguf.file_bytes());
}

#[test]
fn smollm2_opens() {
    let gguf = Gguf::open(tapri_registry::test_model("smollm2")).unwrap();
    assert_eq!(gguf.metadata().str("tokenizer.ggml.pre").unwrap(), "smollm");
    assert_eq!(gguf.tensors().len(), 272);
    assert_eq!(gguf.tensor("output_norm.weight").unwrap().dims, [576]);
    let down = gguf.tensor("blk.0.ffn_down.weight").unwrap();
    assert_eq!((down.columns(), down.rows()), (1536, 576));
}
