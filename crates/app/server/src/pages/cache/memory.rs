//! The KV memory in figures, as a map, and as tables.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tapri_pipeline::{BackendStats, MapRun, PrefixMap};

use crate::history::Minute;
use crate::pages::chart::{self, Cells, Column, Entry, Fill};
use crate::pages::figures::{Bytes, Percent, percent, plain_span, print, share, span};
use crate::pages::show::{Html, Moment, Number};
use crate::pages::texts::{ENGLISH, fill};

/// Cells of a row of the map, of a small memory and of a large one, and the most of them in all: what a window has room
/// for.
const FEW_COLUMNS: usize = 32;
const COLUMNS: usize = 64;
const CELLS: usize = 64 * 16;

/// Minutes that evictions are drawn over at least.
const MINUTES: i64 = 30;

/// Runs that are listed.
const LISTED: usize = 30;

/// The KV memory.
pub(super) struct Memory {
    pub(super) facts: Vec<(&'static str, Html)>,
    /// What twice the memory would have done, or why there is nothing to say.
    pub(super) twice: Html,
    pub(super) map: Html,
    pub(super) scale: Html,
    pub(super) legend: Vec<Entry>,
    pub(super) tenants: Vec<Owner>,
    pub(super) shared: Vec<Shared>,
    /// Runs that are not listed.
    pub(super) more: usize,
    pub(super) evictions: Option<Evictions>,
}

/// A tenant's part of it.
pub(super) struct Owner {
    pub(super) name: String,
    pub(super) print: String,
    pub(super) blocks: Html,
    pub(super) share: Html,
    pub(super) in_use: Html,
    pub(super) age: Html,
}

/// A run of blocks and who shares it.
pub(super) struct Shared {
    pub(super) tenant: String,
    pub(super) print: String,
    pub(super) tokens: Html,
    pub(super) users: Html,
    pub(super) uses: Html,
    pub(super) age: Html,
}

/// Evictions over time.
pub(super) struct Evictions {
    pub(super) chart: Html,
    pub(super) top: Html,
    pub(super) first: Html,
    pub(super) legend: Vec<Entry>,
    pub(super) rows: Vec<[Html; 6]>,
    pub(super) none: bool,
}

impl Memory {
    pub(super) fn new(
        stats: &BackendStats,
        map: &PrefixMap,
        tenants: &[String],
        minutes: &[Minute],
    ) -> Self {
        let name = |run: &MapRun| name(run, tenants);
        Memory {
            facts: facts(stats, map),
            twice: twice(stats),
            map: drawn(map, &name),
            scale: scale(map, stats),
            legend: legend(map),
            tenants: owners(map, &name),
            shared: map.runs.iter().take(LISTED).map(|run| shared(run, map, &name)).collect(),
            more: map.runs.len().saturating_sub(LISTED),
            evictions: evictions(minutes),
        }
    }
}

/// A tenant that called in this process is known by its name, others by their fingerprint alone.
fn name(run: &MapRun, tenants: &[String]) -> String {
    let known = run.scope.and_then(|at| tenants.get(at)).cloned();
    known.unwrap_or_else(|| fill(ENGLISH.cache.somebody, &[&print(run.owner)]))
}

fn facts(stats: &BackendStats, map: &PrefixMap) -> Vec<(&'static str, Html)> {
    let t = &ENGLISH.cache;
    let blocks = |blocks: usize| {
        let bytes = Bytes((blocks * stats.block_bytes) as u64);
        Html(fill(t.blocks_and_bytes, &[&Number(blocks as u64), &bytes]))
    };
    vec![
        (t.capacity, blocks(map.capacity)),
        (t.in_use, blocks(stats.blocks_used)),
        (t.cached, blocks(stats.blocks_cached)),
        (t.empty, blocks(map.empty)),
        (t.hit_rate, percent(share(stats.prefix_hits, stats.prefix_queries))),
        (t.hit_rate_recent, percent(share(stats.recent_hits, stats.recent_queries))),
        (t.running, Html(Number(stats.running as u64).to_string())),
        (t.waiting, Html(Number(stats.waiting as u64).to_string())),
    ]
}

/// What twice the memory would have done, measured on the list of evicted blocks.
fn twice(stats: &BackendStats) -> Html {
    let t = &ENGLISH.cache;
    let Some(now) = share(stats.prefix_hits, stats.prefix_queries) else {
        return Html(t.twice_nothing.to_owned());
    };
    if stats.evicted_blocks + stats.evicted_window_blocks == 0 {
        return Html(fill(t.twice_never, &[&Percent(now)]));
    }
    let would = stats.prefix_hits + stats.prefix_ghost_hits;
    let would = share(would, stats.prefix_queries).unwrap_or(now);
    let more = Number(stats.prefix_ghost_hits);
    Html(fill(t.twice, &[&Percent(would), &Percent(now), &more]))
}

/// The map's runs in its order: what is being filled, what is stored by last use, what is too old to be told apart, and
/// what is empty. A cell is so many blocks that all fit; each run that has a block has a cell.
fn drawn(map: &PrefixMap, name: &impl Fn(&MapRun) -> String) -> Html {
    let t = &ENGLISH.cache;
    let blocks = blocks_a_cell(map);
    // Rounding by the running sum keeps the whole as large as it is.
    let mut sum = 0;
    let mut cells = |count: usize| {
        let before = sum / blocks;
        sum += count;
        sum / blocks - before
    };
    let mut runs = Vec::new();
    let mut add = |fill_with, count: usize, title: String| {
        let cells = cells(count);
        if cells > 0 {
            runs.push(Cells { fill: fill_with, cells, title });
        }
    };
    add(Fill::Joined, map.private, fill(t.title_private, &[&map.private]));
    for run in &map.runs {
        let age = plain_span(run.age);
        let print = print(run.print);
        let (tenant, kv) = (name(run), run.kv_blocks);
        match run.users {
            0 => add(
                Fill::Cached,
                kv,
                fill(t.title_cached, &[&kv, &tenant, &print, &age, &run.uses]),
            ),
            users => {
                add(Fill::Used, kv, fill(t.title_used, &[&kv, &tenant, &print, &users, &run.uses]));
            }
        }
    }
    add(Fill::Other, map.left_out, fill(t.title_left_out, &[&map.left_out]));
    add(Fill::Empty, map.empty, fill(t.title_empty, &[&map.empty]));
    let used: usize = map.runs.iter().filter(|run| run.users > 0).map(|run| run.kv_blocks).sum();
    let stored: usize = map.runs.iter().map(|run| run.kv_blocks).sum();
    let label = fill(
        t.map_label,
        &[&map.capacity, &(used + map.private), &(stored - used + map.left_out), &map.empty],
    );
    let columns = if map.capacity <= FEW_COLUMNS * 12 { FEW_COLUMNS } else { COLUMNS };
    chart::map(&label, columns, &runs)
}

fn blocks_a_cell(map: &PrefixMap) -> usize {
    map.capacity.div_ceil(CELLS).max(1)
}

fn scale(map: &PrefixMap, stats: &BackendStats) -> Html {
    let t = &ENGLISH.cache;
    let blocks = blocks_a_cell(map);
    let bytes = Bytes((blocks * stats.block_bytes) as u64);
    let text = if blocks == 1 { t.scale_one } else { t.scale };
    Html(fill(text, &[&Number(blocks as u64), &bytes, &Number(map.block_tokens as u64)]))
}

fn legend(map: &PrefixMap) -> Vec<Entry> {
    let t = &ENGLISH.cache;
    let mut legend = vec![
        Entry::new(Fill::Used, t.legend_used),
        Entry::new(Fill::Joined, t.legend_private),
        Entry::new(Fill::Cached, t.legend_cached),
        Entry::new(Fill::Empty, t.legend_empty),
    ];
    if map.left_out > 0 {
        legend.push(Entry::new(Fill::Other, t.legend_left_out));
    }
    legend
}

fn owners(map: &PrefixMap, name: &impl Fn(&MapRun) -> String) -> Vec<Owner> {
    struct Sum {
        name: String,
        blocks: usize,
        in_use: usize,
        age: Duration,
    }
    let mut sums: BTreeMap<u64, Sum> = BTreeMap::new();
    for run in &map.runs {
        let sum = sums.entry(run.owner).or_insert_with(|| Sum {
            name: name(run),
            blocks: 0,
            in_use: 0,
            age: run.age,
        });
        sum.blocks += run.kv_blocks;
        sum.in_use += if run.users > 0 { run.kv_blocks } else { 0 };
        sum.age = sum.age.min(run.age);
    }
    let mut sums: Vec<(u64, Sum)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.blocks));
    sums.into_iter()
        .map(|(owner, sum)| Owner {
            name: sum.name,
            print: print(owner),
            blocks: Html(Number(sum.blocks as u64).to_string()),
            share: percent(share(sum.blocks as u64, map.capacity as u64)),
            in_use: Html(Number(sum.in_use as u64).to_string()),
            age: ago(sum.age),
        })
        .collect()
}

fn shared(run: &MapRun, map: &PrefixMap, name: &impl Fn(&MapRun) -> String) -> Shared {
    let t = &ENGLISH.cache;
    let (first, last) = (run.first * map.block_tokens, (run.first + run.blocks) * map.block_tokens);
    Shared {
        tenant: name(run),
        print: print(run.print),
        tokens: Html(fill(t.tokens_from_to, &[&Number(first as u64), &Number(last as u64 - 1)])),
        users: Html(Number(run.users.into()).to_string()),
        uses: Html(Number(run.uses.into()).to_string()),
        age: ago(run.age),
    }
}

fn ago(age: Duration) -> Html {
    Html(fill(ENGLISH.operator.ago, &[&span(age)]))
}

/// `None` before the first minute was seen.
fn evictions(minutes: &[Minute]) -> Option<Evictions> {
    let t = &ENGLISH.cache;
    let (first, last) = (minutes.first()?, minutes.last()?);
    // A server that has just begun did nothing before.
    let before = (last.minute - MINUTES + 1..first.minute)
        .map(|minute| Minute { minute, ..Minute::default() });
    let minutes: Vec<Minute> = before.chain(minutes.iter().copied()).collect();
    let first = minutes.first()?;
    let moment = |minute: &Minute| Timestamp::from_second(minute.minute * 60).unwrap_or_default();
    let columns: Vec<Column> = minutes
        .iter()
        .map(|minute| {
            let gone = minute.evicted + minute.passed + minute.expired + minute.erased;
            let time = moment(minute).strftime("%H:%M UTC").to_string();
            Column {
                title: fill(t.evictions_title, &[&time, &gone]),
                parts: vec![
                    (Fill::Fresh, minute.evicted as f64),
                    (Fill::Joined, minute.passed as f64),
                    (Fill::Other, minute.expired as f64),
                    (Fill::Used, minute.erased as f64),
                ],
            }
        })
        .collect();
    let top = chart::top(&columns);
    let sum = |of: fn(&Minute) -> u64| minutes.iter().map(of).sum::<u64>();
    let (evicted, passed) = (sum(|it| it.evicted), sum(|it| it.passed));
    let (expired, erased) = (sum(|it| it.expired), sum(|it| it.erased));
    let label = fill(t.evictions_label, &[&minutes.len(), &evicted, &passed, &expired, &erased]);
    let entry = |fill_with, words: &str, count| {
        Entry::new(fill_with, fill(t.legend_count, &[&words, &Number(count)]))
    };
    let happened = |it: &&Minute| it.queries + it.evicted + it.passed + it.expired + it.erased > 0;
    let number = |count| Html(Number(count).to_string());
    let rows = minutes.iter().rev().filter(happened).map(|minute| {
        [
            Html(Moment(moment(minute)).to_string()),
            percent(share(minute.hits, minute.queries)),
            number(minute.evicted),
            number(minute.passed),
            number(minute.expired),
            number(minute.erased),
        ]
    });
    Some(Evictions {
        chart: chart::columns(&label, &columns),
        top: number(top as u64),
        first: Html(Moment(moment(first)).to_string()),
        legend: vec![
            entry(Fill::Fresh, t.evicted, evicted),
            entry(Fill::Joined, t.passed, passed),
            entry(Fill::Other, t.expired, expired),
            entry(Fill::Used, t.erased, erased),
        ],
        rows: rows.collect(),
        none: top == 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(users: u32, kv_blocks: usize, age: u64) -> MapRun {
        MapRun {
            scope: (age == 1).then_some(0),
            owner: age << 40,
            print: 7,
            first: 0,
            blocks: kv_blocks,
            kv_blocks,
            users,
            uses: 3,
            age: Duration::from_secs(age),
        }
    }

    #[test]
    fn a_large_pool_fits_the_map_and_nothing_is_lost() {
        let map = PrefixMap {
            runs: vec![run(2, 3000, 1), run(0, 50_000, 90), run(0, 7, 9000)],
            left_out: 10_000,
            private: 993,
            empty: 36_000,
            capacity: 100_000,
            block_tokens: 16,
        };
        let tenants = ["<b>red</b>".to_owned()];
        let svg = drawn(&map, &|run| name(run, &tenants)).0;
        assert!(!svg.contains("<b>") && svg.contains("&lt;b&gt;red"));
        let per_cell = blocks_a_cell(&map);
        assert_eq!(per_cell, 98);
        let width = |svg: &str| -> usize {
            svg.split(" width=\"")
                .skip(1)
                .filter_map(|it| it.split('"').next()?.parse::<usize>().ok())
                .map(|it| it / 10)
                .sum()
        };
        assert_eq!(width(&svg), 100_000 / per_cell);
        let owners = owners(&map, &|run| name(run, &tenants));
        assert_eq!(owners.len(), 3);
        assert!(owners[0].name.contains("00005a00"), "{}", owners[0].name);
    }

    #[test]
    fn twice_the_memory_is_said_with_its_base() {
        let stats = |queries, hits, ghosts, evicted| BackendStats {
            prefix_queries: queries,
            prefix_hits: hits,
            prefix_ghost_hits: ghosts,
            evicted_blocks: evicted,
            ..BackendStats::default()
        };
        assert_eq!(twice(&stats(0, 0, 0, 0)).0, ENGLISH.cache.twice_nothing);
        assert!(twice(&stats(100, 40, 0, 0)).0.contains("0.400"));
        let said = twice(&stats(100, 40, 25, 9)).0;
        assert!(
            said.contains("0.650") && said.contains("0.400") && said.contains(">25<"),
            "{said}"
        );
    }

    #[test]
    fn minutes_are_a_chart_with_a_table() {
        assert!(evictions(&[]).is_none());
        let quiet = Minute { minute: 100, queries: 10, hits: 5, ..Minute::default() };
        let busy = Minute { minute: 101, evicted: 30, expired: 10, ..Minute::default() };
        let shown = evictions(&[quiet, busy]);
        let shown = shown.as_ref();
        assert_eq!(shown.map(|it| (it.rows.len(), it.none)), Some((2, false)));
        assert_eq!(shown.map(|it| it.top.0.contains(">40<")), Some(true));
        assert_eq!(evictions(&[quiet]).map(|it| it.none), Some(true));
    }
}
