#![expect(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::prices::{Format, file};

fn hosted() -> PriceList {
    let text = "name='h'\ncurrency='USD'\ninput=1000\ncached_input=100\noutput=15\nwrite={'5m'=1250,'1h'=2000}\n";
    file::read("h.toml", text, Format::Toml).unwrap().find("any").unwrap().clone()
}

fn uses(seconds: &[i64]) -> Vec<Use> {
    let at = |s: &i64| Timestamp::from_second(*s).unwrap();
    seconds
        .iter()
        .map(|s| Use { at: at(s), ready: Duration::ZERO, cacheable: true, rates: 0 })
        .collect()
}

fn cost(seconds: &[i64], policy: Policy) -> u64 {
    let list = hosted();
    let rates = list.rates(Tier::Standard, 0);
    let counts = replay(&uses(seconds), policy, 1);
    u64::try_from(counts[0].million(rates, policy)).unwrap()
}

fn touched() -> Policy {
    let all = Policy::all(&hosted());
    *all.iter().find(|p| p.name() == "5m_touched").unwrap()
}

#[test]
fn every_way_that_has_a_price() {
    let names: Vec<_> = Policy::all(&hosted()).iter().map(Policy::name).collect();
    assert_eq!(names, ["nothing", "5m", "1h", "5m_touched", "1h_touched"]);
    let names: Vec<_> = Policy::all(&PriceList::example()).iter().map(Policy::name).collect();
    assert_eq!(names, ["nothing", "5m", "30m", "1h", "12h"]);
}

#[test]
fn gaps_decide() {
    let quick = [0, 60, 120, 180];
    assert_eq!(cost(&quick, Policy::Nothing), 4_000);
    assert_eq!(cost(&quick, Policy::Kept(Lifetime::FiveMinutes)), 1_250 + 300);
    assert_eq!(cost(&quick, Policy::Kept(Lifetime::Hour)), 2_000 + 300);
    // Twenty minutes: an hour's lifetime is the cheapest marker.
    let slow = [0, 1_200, 2_400, 3_600];
    assert_eq!(cost(&slow, Policy::Kept(Lifetime::FiveMinutes)), 5_000);
    assert_eq!(cost(&slow, Policy::Kept(Lifetime::Hour)), 2_300);
    // 4 touches in each gap (240, 480, 720, 960 s), 11 in vain at the end.
    assert_eq!(cost(&slow, touched()), 1_250 + 300 + 3 * 400 + 1_100);
    // A lifetime ends sharply, and each use begins it again.
    assert_eq!(cost(&[0, 300, 600], Policy::Kept(Lifetime::FiveMinutes)), 1_450);
    assert_eq!(cost(&[0, 301], Policy::Kept(Lifetime::FiveMinutes)), 2_500);
    // Too long for touching: all 11 in vain, twice.
    assert_eq!(cost(&[0, 36_000], touched()), 2_500 + 2_200);
}

#[test]
fn a_crowd_writes_more_than_once() {
    let mut crowd = uses(&[0, 1, 2, 30]);
    for one in &mut crowd {
        one.ready = Duration::from_secs(5);
    }
    let counts = replay(&crowd, Policy::Kept(Lifetime::FiveMinutes), 1)[0];
    assert_eq!((counts.written, counts.read), (3, 1));
}

#[test]
fn what_is_too_short_is_computed() {
    let mut mixed = uses(&[0, 10, 20]);
    mixed[1].cacheable = false;
    mixed[1].rates = 1;
    let counts = replay(&mixed, Policy::Kept(Lifetime::FiveMinutes), 2);
    assert_eq!((counts[0].written, counts[0].read), (1, 1));
    assert_eq!(counts[1].computed, 1);
}

/// One second after the other.
fn naive(seconds: &[i64], policy: Policy) -> (u64, u64, u64) {
    let (lifetime, every, most) = match policy {
        Policy::Nothing => return (0, 0, 0),
        Policy::Kept(lifetime) => (lifetime, u64::MAX, 0),
        Policy::Touched { lifetime, every, most } => (lifetime, every.as_secs(), most),
    };
    let (mut written, mut read, mut touched) = (0, 0, 0);
    let mut left: i64 = -1;
    let (mut since, mut touches) = (0u64, u64::MAX);
    let end = seconds.last().unwrap() + 100_000;
    let mut next = seconds.iter().peekable();
    for now in 0..end {
        let mut used = false;
        while next.next_if(|at| **at == now).is_some() {
            if left >= 0 {
                read += 1
            } else {
                written += 1
            }
            (left, since, touches, used) =
                (i64::try_from(lifetime.duration().as_secs()).unwrap(), 0, 0, true);
        }
        if !used && touches < most && since == every {
            touched += 1;
            touches += 1;
            (left, since) = (i64::try_from(lifetime.duration().as_secs()).unwrap(), 0);
        }
        left -= 1;
        since += 1;
    }
    (written, read, touched)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn as_by_the_clock(gaps in prop::collection::vec(0i64..6_000, 1..12), which in 0usize..5) {
        let mut at = 0;
        let seconds: Vec<_> = gaps.iter().map(|gap| { at += gap; at }).collect();
        let mut policy = Policy::all(&hosted())[which];
        if let Policy::Touched { most, .. } = &mut policy {
            *most = (*most).min(15);
        }
        let counts = replay(&uses(&seconds), policy, 1)[0];
        let (written, read, touched) = naive(&seconds, policy);
        if policy == Policy::Nothing {
            prop_assert_eq!(counts.computed, seconds.len() as u64);
        } else {
            prop_assert_eq!((counts.written, counts.read, counts.touched), (written, read, touched));
        }
    }
}
