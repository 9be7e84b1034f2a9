//! Capacities, as people write them.

use anyhow::Result;
use tapri_insight::simulate::Curve;

use crate::failure::Failure;
use crate::quantity;

/// How large a cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capacity {
    Blocks(usize),
    Bytes(u64),
}

/// A number is of blocks, one with a unit is of memory.
pub(super) fn parse(text: &str) -> Result<Capacity, String> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return match text.parse() {
            Ok(0) | Err(_) => Err("it must be at least one block".to_owned()),
            Ok(blocks) => Ok(Capacity::Blocks(blocks)),
        };
    }
    quantity::bytes(text).map(Capacity::Bytes)
}

/// A share, 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("it must be between 0 and 1, for example 0.9".to_owned()),
    }
}

/// In blocks.
pub(super) fn in_blocks(capacity: Capacity, bytes_per_block: Option<u64>) -> Result<usize> {
    match (capacity, bytes_per_block) {
        (Capacity::Blocks(blocks), _) => Ok(blocks),
        (Capacity::Bytes(bytes), Some(per_block)) => {
            let blocks = bytes / per_block;
            if blocks == 0 {
                let memory = quantity::show_memory(bytes);
                let block = quantity::show_memory(per_block);
                let message = format!("{memory} don't hold one block of {block}");
                return Err(Failure::usage(message, "set a larger --capacity").into());
            }
            Ok(blocks as usize)
        }
        (Capacity::Bytes(bytes), None) => {
            let memory = quantity::show_memory(bytes);
            let message = format!("how many blocks {memory} are isn't known");
            let hint =
                "say what a token takes with --kv-bytes-per-token, or give --capacity in blocks";
            Err(Failure::usage(message, hint).into())
        }
    }
}

/// The most capacities that are chosen for someone who named none.
const CHOSEN: usize = 8;

/// Round numbers between the longest call and where nothing more is gained, the largest of them, and that end.
pub(super) fn ladder(curve: &Curve) -> Vec<usize> {
    let (smallest, largest) = (curve.smallest() + 1, curve.largest() + 1);
    let round = (0..).flat_map(|power| [1, 2, 5].map(|step| step * 10usize.pow(power)));
    let mut rungs: Vec<usize> =
        round.skip_while(|rung| *rung < smallest).take_while(|rung| *rung < largest).collect();
    rungs.drain(..rungs.len().saturating_sub(CHOSEN - 1));
    rungs.push(largest);
    rungs
}
