//! Groups of sliding-window layers.

use tapri_kv::{CacheConfig, CallId, GroupIndex, GroupSpec, PrefixCache, StopReason};

use crate::support::*;

/// A full group and one with a window of three blocks, and boundaries kept every 8 blocks.
fn hybrid(blocks: usize) -> PrefixCache {
    let mut config = CacheConfig::new(blocks, vec![GroupSpec::Full, window(49)]);
    config.step_tokens = 64;
    config.retention_tokens = 128;
    cache_with(config)
}

/// Computes a prompt in steps and ends the call.
fn read(cache: &mut PrefixCache, call: u64, prompt: &[u32]) -> (usize, StopReason) {
    let ready = ready(admit(cache, call, prompt));
    for upto in (ready.start()..prompt.len()).skip(64).step_by(64).chain([prompt.len()]) {
        compute(cache, call, upto);
    }
    cache.finish(CallId(call), at(0));
    (ready.hit, ready.stop.reason)
}

fn parting(at: u32) -> Vec<u32> {
    [tokens(0, at), tokens(5000 + at, 20)].concat()
}

#[test]
fn a_window_holds_no_more_than_it_needs() {
    let mut cache = hybrid(200);
    ready(admit(&mut cache, 1, &tokens(0, 640)));
    for upto in (64..=640).step_by(64) {
        compute(&mut cache, 1, upto);
        let used = cache.stats().groups[1].in_use;
        assert!(used <= 3, "{used} blocks after {upto} tokens");
    }
    let table = cache.table(CallId(1), GroupIndex(1));
    assert!(
        table[..37].iter().all(|&block| block == 0) && table[37..].iter().all(|&block| block != 0)
    );
}

#[test]
fn under_room_every_boundary_can_be_hit() {
    let mut cache = hybrid(400);
    read(&mut cache, 1, &tokens(0, 640));
    for (call, at) in [(2, 16), (3, 48), (4, 320), (5, 592)] {
        assert_eq!(
            read(&mut cache, call, &parting(at)),
            (at as usize, StopReason::FirstDifference)
        );
    }
}

#[test]
fn under_pressure_windows_away_from_retained_boundaries_go_first() {
    // 40 full blocks and 40 window blocks; 20 spare ones.
    let mut cache = hybrid(101);
    read(&mut cache, 1, &tokens(0, 640));
    assert_eq!(cache.stats().free, 100);
    // Another prompt takes 24 full blocks and at most 24 window blocks: only windows that were passed have to go.
    read(&mut cache, 2, &tokens(9000, 384));
    let evictions = cache.stats().counters.evictions;
    assert_eq!(evictions.capacity, 0);
    assert!(evictions.window > 10);
    // 24 and 32 blocks are multiples of 8, 39 is where a repeat of the prompt ends, 40 where it goes on.
    assert_eq!(read(&mut cache, 3, &parting(384)), (384, StopReason::FirstDifference));
    assert_eq!(read(&mut cache, 4, &tokens(0, 640)).0, 624);
    // Block 20 has lost its window; the hit goes back to the last boundary that has one.
    let mut pressed = hybrid(101);
    read(&mut pressed, 1, &tokens(0, 640));
    read(&mut pressed, 2, &tokens(9000, 384));
    assert_eq!(read(&mut pressed, 3, &parting(320)), (256, StopReason::WindowGone));
}

#[test]
fn a_hit_boundary_is_retained() {
    let mut cache = hybrid(151);
    read(&mut cache, 1, &tokens(0, 640));
    assert_eq!(read(&mut cache, 2, &parting(320)).0, 320);
    for call in 3..6 {
        read(&mut cache, call, &tokens(9000 * call as u32, 256));
    }
    assert!(cache.stats().counters.evictions.window > 0);
    let another = [tokens(0, 320), tokens(7000, 20)].concat();
    assert_eq!(read(&mut cache, 9, &another).0, 320, "what was hit once is kept for the next one");
}
