//! What the owner is told.

use tapri_kv::{CacheConfig, ConfigError, GroupIndex, GroupSpec, KvEvent, PrefixCache};

use crate::support::*;

#[test]
fn events_name_what_can_be_found_and_are_bounded() {
    let mut config = CacheConfig::new(4, vec![GroupSpec::Full]);
    config.events = 6;
    let mut cache = cache_with(config);
    run(&mut cache, 1, &tokens(0, 48));
    let (events, lost) = cache.drain_events();
    let stored: Vec<_> = events
        .iter()
        .map(|event| match *event {
            KvEvent::Stored { hash, parent, number, group } => (hash, parent, number, group),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((stored.len(), lost), (3, 0));
    assert_eq!(stored[0].1.0, *root(b"tenant").as_bytes(), "a chain begins at the root");
    for (number, pair) in stored.windows(2).enumerate() {
        assert_eq!(
            (pair[1].1, pair[1].2),
            (pair[0].0, number + 1),
            "each block names the one before it"
        );
    }
    run(&mut cache, 2, &tokens(1000, 20));
    let (events, _) = cache.drain_events();
    let removed = |index: usize| KvEvent::Removed { hash: stored[index].0, group: GroupIndex(0) };
    assert_eq!(events[..2], [removed(2), removed(1)], "the tail goes first");
    for call in 3..9 {
        run(&mut cache, call, &tokens(2000 * call as u32, 48));
    }
    cache.reset();
    let (events, lost) = cache.drain_events();
    assert_eq!((events.len(), events.last()), (6, Some(&KvEvent::Cleared)));
    assert!(lost > 0);
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let refused = |blocks, groups: Vec<GroupSpec>, change: fn(&mut CacheConfig)| {
        let mut config = CacheConfig::new(blocks, groups);
        change(&mut config);
        PrefixCache::new(config).err().unwrap()
    };
    assert_eq!(refused(1, vec![GroupSpec::Full], |_| {}), ConfigError::Blocks(1));
    assert_eq!(refused(10, vec![], |_| {}), ConfigError::Groups(0));
    assert_eq!(
        refused(10, vec![GroupSpec::Full], |config| config.block_tokens = 0),
        ConfigError::BlockTokens
    );
    assert_eq!(
        refused(10, vec![GroupSpec::Full], |config| config.step_tokens = 0),
        ConfigError::StepTokens
    );
    assert_eq!(GroupSpec::from_window(None), GroupSpec::Full);
    assert_eq!(GroupSpec::from_window(Some(512)), window(512));
}
