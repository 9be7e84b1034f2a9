//! One tenant's or one route's hit rate.

use std::collections::VecDeque;

use jiff::Timestamp;

use super::detector::Detector;
use super::interval::bounds;
use super::split::split;
use super::{Changed, Config, Kind, Rate};

/// Blocks that are kept: enough to bound a rate closely and to find where it changed.
const KEPT: usize = 256;
/// Neighbouring blocks that are more alike than this are made longer.
const ALIKE: f64 = 0.3;
/// Blocks grow no longer than this, in calls.
const LONGEST: u32 = 1024;
/// Blocks that a gauge shows.
const SHOWN: usize = 8;

/// A series' state.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// Calls in a block.
    length: u32,
    open: Open,
    /// The last blocks since it began to learn.
    blocks: VecDeque<Block>,
    /// Evidence that the rate is below the threshold.
    low: Detector,
    /// Once the rate is learned: evidence that it fell, and that it rose.
    learned: Option<(Option<Detector>, Option<Detector>)>,
    /// At how many blocks the rate is learned again.
    refine: [usize; 2],
    pub(super) alarm: Option<Kind>,
}

/// A block in the making.
#[derive(Debug, Clone, Default)]
struct Open {
    sum: f64,
    calls: u32,
    start: Option<Timestamp>,
}

/// The mean share of some calls, and when the first of them was.
#[derive(Debug, Clone, Copy)]
struct Block {
    mean: f64,
    start: Timestamp,
}

/// What a series has to say.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    pub(super) kind: Kind,
    pub(super) before: Option<Rate>,
    pub(super) after: Rate,
    pub(super) changed: Option<Changed>,
}

impl Series {
    pub(super) fn new(config: &Config) -> Self {
        Series {
            length: config.block.max(1),
            open: Open::default(),
            blocks: VecDeque::new(),
            low: Detector::new(config.threshold),
            learned: None,
            refine: [2, 4].map(|times| (times * config.reference).min(KEPT - 1)),
            alarm: None,
        }
    }

    /// Takes a call's share in [0, 1].
    pub(super) fn see(&mut self, config: &Config, at: Timestamp, share: f64) -> Option<Said> {
        self.open.sum += share.clamp(0.0, 1.0);
        self.open.calls += 1;
        let start = *self.open.start.get_or_insert(at);
        if self.open.calls < self.length {
            return None;
        }
        let mean = self.open.sum / f64::from(self.open.calls);
        self.open = Open::default();
        if self.blocks.len() == KEPT {
            self.blocks.pop_front();
        }
        self.blocks.push_back(Block { mean, start });
        self.low.see(mean);
        if let Some((fall, rise)) = &mut self.learned {
            if let Some(fall) = fall {
                fall.see(mean);
            }
            if let Some(rise) = rise {
                rise.see(1.0 - mean);
            }
        }
        let said = self.judge(config);
        // Known closer after twice and four times as many blocks; then the rate to compare with stands, so that a slow
        // decline is not learned as usual.
        let known = self.blocks.len();
        let due = if self.learned.is_none() {
            known >= config.reference
        } else {
            self.refine.contains(&known)
        };
        if said.is_none() && due {
            self.learn(config);
        }
        said
    }

    /// The mean share of the last blocks and the calls in them; `None` before the first block.
    pub(super) fn rate(&self) -> Option<(f64, u64)> {
        let shown = self.blocks.len().min(SHOWN);
        let sum: f64 = self.blocks.iter().rev().take(shown).map(|block| block.mean).sum();
        (shown > 0).then(|| (sum / shown as f64, shown as u64 * u64::from(self.length)))
    }

    pub(super) fn is_learned(&self) -> bool {
        self.learned.is_some()
    }

    /// How much evidence is an alarm. Two detectors look, so each may be wrong half as often.
    fn alarm_at(&self, config: &Config) -> f64 {
        2.0 * config.false_alarm_every as f64 / f64::from(self.length)
    }

    fn judge(&mut self, config: &Config) -> Option<Said> {
        let enough = self.alarm_at(config);
        let over = |detector: &Option<Detector>| {
            detector.as_ref().is_some_and(|detector| detector.evidence() >= enough)
        };
        let (fell, rose) =
            self.learned.as_ref().map_or((false, false), |(f, r)| (over(f), over(r)));
        if fell {
            let said = self.change(Kind::Fell);
            self.alarm = Some(Kind::Fell);
            self.forget(config, said.changed);
            return Some(said);
        }
        if rose {
            let said = self.change(Kind::Recovered);
            let was = self.alarm.take();
            self.forget(config, said.changed);
            // A rise from a rate that was never an alarm is no news.
            return was.map(|_| said);
        }
        if self.alarm.is_none() && self.low.evidence() >= enough {
            self.alarm = Some(Kind::Low);
            let after = self.rate_of(0, self.blocks.len());
            return Some(Said { kind: Kind::Low, before: None, after, changed: None });
        }
        None
    }

    /// Begins to learn anew, from what came after the change.
    fn forget(&mut self, config: &Config, changed: Option<Changed>) {
        let keep = changed.map(|changed| changed.at);
        self.blocks.retain(|block| keep.is_some_and(|at| block.start >= at));
        // An alarm's blocks are known to be low, or high: a rate learned from many of them would be off.
        let recent = config.reference / 4;
        while self.blocks.len() > recent {
            self.blocks.pop_front();
        }
        self.low = Detector::new(config.threshold);
        self.learned = None;
    }

    /// Learns the rate, or makes the blocks longer where neighbours hang together.
    fn learn(&mut self, config: &Config) {
        let means: Vec<f64> = self.blocks.iter().map(|block| block.mean).collect();
        if self.learned.is_none() && alike(&means) > ALIKE && self.length < LONGEST {
            let pairs: Vec<Block> =
                self.blocks.make_contiguous().chunks_exact(2).map(pair).collect();
            self.blocks = pairs.into();
            self.length *= 2;
            return;
        }
        let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
        let (low, high) = bounds(&means, 0.01);
        let floor = low.min(mean - config.margin);
        let ceiling = high.max(mean + config.margin);
        self.learned = Some((
            (floor > 0.0).then(|| Detector::new(floor)),
            (ceiling < 1.0).then(|| Detector::new(1.0 - ceiling)),
        ));
        // A new usual rate that isn't low ends the alarm: everyone was told.
        if mean >= config.threshold {
            self.alarm = None;
        }
    }

    fn change(&self, kind: Kind) -> Said {
        let means: Vec<f64> = self.blocks.iter().map(|block| block.mean).collect();
        let start = |index: usize| self.blocks.get(index).map(|block| block.start);
        // The same blocks give the same draws.
        let found = split(&means, means.len() as u64);
        let at = found.map_or(0, |split| split.at);
        Said {
            kind,
            before: found.map(|split| self.rate_of(0, split.at)),
            after: self.rate_of(at, means.len()),
            changed: found.and_then(|split| {
                Some(Changed {
                    at: start(split.at)?,
                    from: start(split.from - 1)?,
                    to: start(split.to)?,
                })
            }),
        }
    }

    fn rate_of(&self, from: usize, to: usize) -> Rate {
        let means: Vec<f64> = self.blocks.range(from..to).map(|block| block.mean).collect();
        let (low, high) = bounds(&means, 0.05);
        Rate {
            mean: means.iter().sum::<f64>() / means.len().max(1) as f64,
            low,
            high,
            calls: means.len() as u64 * u64::from(self.length),
        }
    }
}

fn pair(two: &[Block]) -> Block {
    let mean = two.iter().map(|block| block.mean).sum::<f64>() / two.len() as f64;
    Block { mean, start: two[0].start }
}

/// How alike neighbours are: the correlation of each with the next.
fn alike(means: &[f64]) -> f64 {
    let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
    let variance: f64 = means.iter().map(|x| (x - mean).powi(2)).sum();
    let together: f64 = means.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    if variance <= 1e-12 { 0.0 } else { together / variance }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;

    /// SplitMix64 with a seed.
    pub(in crate::alert) struct Random(pub(in crate::alert) u64);

    impl Random {
        pub(in crate::alert) fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// Shares of calls whose law doesn't change, by what makes them hang together.
    pub(in crate::alert) struct Traffic {
        random: Random,
        law: Law,
        left: u32,
        level: f64,
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(in crate::alert) enum Law {
        /// Each call for itself: 0.94 of 0.985 of them, else nothing.
        Apart,
        /// Conversations, one after the other: the first call reads nothing, some eight later ones nearly all.
        Conversations,
        /// As apart, and now and then twenty cold calls in a row: a batch of new starts.
        Bursts,
        /// A level that wanders between 0.85 and 1 over some 50 calls.
        Wandering,
    }

    impl Traffic {
        pub(in crate::alert) fn new(law: Law, seed: u64) -> Self {
            Traffic { random: Random(seed), law, left: 0, level: 0.93 }
        }

        pub(in crate::alert) fn next(&mut self) -> f64 {
            let unit = self.random.unit();
            match self.law {
                Law::Apart => f64::from(u8::from(unit < 0.985)) * 0.954,
                Law::Conversations => {
                    if self.left == 0 {
                        // Geometric, with a mean of eight.
                        self.left = 1 + (unit.max(1e-12).ln() / (1.0f64 - 1.0 / 8.0).ln()) as u32;
                        0.0
                    } else {
                        self.left -= 1;
                        0.95 + 0.05 * unit
                    }
                }
                Law::Bursts => {
                    if self.left > 0 {
                        self.left -= 1;
                        return 0.0;
                    }
                    if unit < 0.002 {
                        self.left = 20;
                    }
                    0.94 + 0.05 * unit
                }
                Law::Wandering => {
                    self.level = (0.925 + 0.98 * (self.level - 0.925) + 0.04 * (unit - 0.5))
                        .clamp(0.85, 1.0);
                    (self.level + 0.1 * (self.random.unit() - 0.5)).clamp(0.0, 1.0)
                }
            }
        }
    }

    const LAWS: [Law; 4] = [Law::Apart, Law::Conversations, Law::Bursts, Law::Wandering];

    fn time(call: u32) -> Timestamp {
        Timestamp::from_second(1_796_000_000 + i64::from(call)).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// On each law, 250 series of 20,000 calls: five million calls, in which at most five false alarms are promised on
    /// average.
    #[test]
    fn false_alarms_are_within_the_promise() {
        let config = Config::default();
        for law in LAWS {
            let mut alarms = 0;
            for seed in 0..250 {
                let mut traffic = Traffic::new(law, seed * 7919);
                let mut series = Series::new(&config);
                for call in 0..20_000 {
                    alarms += u32::from(series.see(&config, time(call), traffic.next()).is_some());
                }
                assert!(series.is_learned(), "{law:?}");
            }
            assert!(alarms <= 5, "{law:?}: {alarms}");
        }
    }

    /// From its usual rate to nothing, and to three quarters of it: seen within so many calls.
    #[test]
    fn a_fall_is_seen_soon() {
        let config = Config::default();
        let mut said = String::new();
        for (law, left) in LAWS.into_iter().flat_map(|law| [(law, 0.0), (law, 0.75)]) {
            let mut delays: Vec<u32> = Vec::new();
            for seed in 0..100 {
                let mut traffic = Traffic::new(law, seed);
                let mut series = Series::new(&config);
                let breaks = 20_000 + seed as u32;
                let seen = (0..breaks + 20_000).find_map(|call| {
                    let share = traffic.next() * if call < breaks { 1.0 } else { left };
                    series.see(&config, time(call), share).map(|found| (call, found))
                });
                let (call, found) = seen.unwrap();
                assert_eq!(found.kind, Kind::Fell);
                delays.push(call + 1 - breaks);
            }
            delays.sort_unstable();
            said += &format!(
                "{law:?} to {left} of it: half within {} calls, 95% within {}\n",
                delays[50], delays[95]
            );
        }
        insta::assert_snapshot!(said);
    }

    #[test]
    fn the_alarm_says_from_what_to_what_and_when() {
        let config = Config::default();
        let (mut held, mut covered) = (0, 0);
        for seed in 0..200 {
            let mut traffic = Traffic::new(Law::Apart, seed);
            let mut series = Series::new(&config);
            let found = (0..).find_map(|call| {
                // Half of the calls lose their cache at call 4,000.
                let share = traffic.next() * f64::from(u8::from(call < 4000 || call % 2 == 0));
                series.see(&config, time(call), share)
            });
            let found = found.unwrap();
            let (before, changed) = (found.before.unwrap_or(found.after), found.changed);
            covered += u32::from(before.low <= 0.9397 && before.high >= 0.9397);
            held += u32::from(changed.is_some_and(|c| c.from <= time(4000) && time(4000) <= c.to));
        }
        // 95 percent of 200, less three standard errors.
        assert!(held >= 181, "{held}");
        assert!(covered >= 181, "{covered}");
    }

    #[test]
    fn little_data_is_quiet() {
        let config = Config::default();
        let mut series = Series::new(&config);
        // Even at nothing from the first call on, a hundred calls are not enough for a promise of one in a million.
        assert!((0..100).all(|call| series.see(&config, time(call), 0.0).is_none()));
        assert_eq!(series.rate(), Some((0.0, 96)));
    }

    #[test]
    fn a_rate_that_was_always_low_is_said_once() {
        let config = Config::default();
        let mut series = Series::new(&config);
        let said: Vec<_> = (0..20_000)
            .filter_map(|call| series.see(&config, time(call), 0.0).map(|said| (call, said.kind)))
            .collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(said[0].1, Kind::Low);
        assert!(said[0].0 < 500, "{said:?}");
        assert_eq!(series.alarm, Some(Kind::Low));
    }

    #[test]
    fn it_recovers_and_can_fall_again() {
        let config = Config::default();
        let mut series = Series::new(&config);
        let share = |call: u32| if (call / 5000).is_multiple_of(2) { 0.94 } else { 0.0 };
        let said: Vec<Kind> = (0..20_000)
            .filter_map(|call| series.see(&config, time(call), share(call)).map(|said| said.kind))
            .collect();
        assert_eq!(said, [Kind::Fell, Kind::Recovered, Kind::Fell]);
    }

    #[test]
    fn memory_is_bounded() {
        let config = Config::default();
        let mut traffic = Traffic::new(Law::Wandering, 1);
        let mut series = Series::new(&config);
        for call in 0..200_000 {
            series.see(&config, time(call), traffic.next());
        }
        assert!(series.blocks.len() <= KEPT && series.length <= LONGEST);
    }
}
