use std::ops::ControlFlow;

use tapri_ledger::{
    CacheOutcome, CacheResult, Detail, Ending, Explanation, Filter, Found, Ledger, MissReason,
    OpenError, Order,
};

use crate::support::{Bench, LONG, call, entry, full, start};

/// Five calls that differ in everything that can be asked for.
fn bench() -> Bench {
    let bench = Bench::new();
    let writer = bench.writer();
    let mut a = call("aa01", 0, 100, 0);
    a.tenant = "t1".to_owned();
    a.conversation = Some("c1".to_owned());
    let mut b = call("aa02", 1, 1000, 500);
    b.route = "/v1/completions".to_owned();
    b.explanation =
        Some(Explanation { reason: MissReason::Evicted, ..full("x").explanation.unwrap() });
    b.prefix =
        Some(CacheResult { outcome: CacheOutcome::Partial, reason: Some("evicted".to_owned()) });
    let mut c = call("ab03", 2, 1000, 990);
    c.model = "other".to_owned();
    c.ending = Ending::Abort;
    let mut d = call("_%04", 3, 10, 0);
    d.upstream = "hosted".to_owned();
    d.exact = Some(CacheResult { outcome: CacheOutcome::Hit, reason: None });
    let mut e = call("ac05", 4, 0, 0);
    e.tokens.prompt = None;
    e.tokens.cached = None;
    e.prefix = None;
    e.ending = Ending::Error("model_not_found".to_owned());
    // Not in the order they began.
    for record in [c, a, e, b, d] {
        writer.record(entry(record));
    }
    assert!(writer.flush(LONG));
    bench
}

#[test]
fn filters() {
    let bench = bench();
    let at = |minutes| Some(start() + jiff::SignedDuration::from_mins(minutes));
    let some = |text: &str| Some(text.to_owned());
    let all = Filter::default();
    let cases: Vec<(Filter, &[&str])> = vec![
        (all.clone(), &["aa01", "aa02", "ab03", "_%04", "ac05"]),
        (Filter { order: Order::NewestFirst, limit: Some(2), ..all.clone() }, &["ac05", "_%04"]),
        (Filter { since: at(1), until: at(3), ..all.clone() }, &["aa02", "ab03"]),
        (Filter { tenant: some("t1"), ..all.clone() }, &["aa01"]),
        (Filter { route: some("/v1/completions"), ..all.clone() }, &["aa02"]),
        (Filter { model: some("other"), ..all.clone() }, &["ab03"]),
        (Filter { upstream: some("hosted"), ..all.clone() }, &["_%04"]),
        (Filter { conversation: some("c1"), ..all.clone() }, &["aa01"]),
        (Filter { id_prefix: some("aa"), ..all.clone() }, &["aa01", "aa02"]),
        (Filter { id_prefix: some("_%"), ..all.clone() }, &["_%04"]),
        (Filter { id_prefix: some("%"), ..all.clone() }, &[]),
        (Filter { outcome: Some(CacheOutcome::Hit), ..all.clone() }, &["ab03", "_%04"]),
        (Filter { outcome: Some(CacheOutcome::Miss), ..all.clone() }, &["aa01"]),
        (Filter { reason: Some(MissReason::Evicted), ..all.clone() }, &["aa02"]),
        (Filter { stop: some("evicted"), ..all.clone() }, &["aa02"]),
        (Filter { why: some("evicted"), ..all.clone() }, &["aa02"]),
        (Filter { why: some("never_seen"), ..all.clone() }, &["aa01", "ab03", "_%04"]),
        (Filter { ending: some("error"), ..all.clone() }, &["ac05"]),
        (Filter { min_prompt: Some(100), ..all.clone() }, &["aa01", "aa02", "ab03"]),
        (Filter { hit_below: Some(0.5), ..all.clone() }, &["aa01", "_%04"]),
        (Filter { hit_above: Some(0.49), ..all.clone() }, &["aa02", "ab03"]),
        (
            Filter { hit_above: Some(0.49), hit_below: Some(0.6), limit: Some(1), ..all.clone() },
            &["aa02"],
        ),
        (Filter { tenant: some("' OR 1=1 --"), ..all.clone() }, &[]),
    ];
    for (filter, ids) in cases {
        assert_eq!(bench.ids(&filter), ids, "{filter:?}");
        // What is judged without the ledger is judged alike.
        if filter.limit.is_none() {
            let matching: Vec<String> = bench
                .ledger()
                .records(&all)
                .unwrap()
                .into_iter()
                .filter(|record| filter.matches(record))
                .map(|record| record.id)
                .collect();
            assert_eq!(matching, ids, "{filter:?}");
        }
    }
}

#[test]
fn figures_leave_the_bulk_out() {
    let bench = Bench::new();
    let writer = bench.writer();
    writer.record(entry(full("a")));
    assert!(writer.flush(LONG));
    let filter = Filter { detail: Detail::Figures, ..Filter::default() };
    let record = bench.ledger().records(&filter).unwrap().remove(0);
    let whole = full("a");
    assert_eq!((record.parts.len(), record.trace.len(), record.text), (0, 0, None));
    assert_eq!(
        (record.tokens, record.explanation, record.cost),
        (whole.tokens, whole.explanation, whole.cost)
    );
}

#[test]
fn a_query_can_be_broken_off() {
    let bench = bench();
    let mut seen = 0;
    let queried = bench.ledger().query(&Filter::default(), |_| {
        seen += 1;
        if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((seen, queried.unwrap().records), (2, 2));
}

#[test]
fn by_the_beginning_of_an_id() {
    let bench = bench();
    let find = |id: &str| bench.ledger().find(id).unwrap();
    let Found::One(one) = find("ab") else { panic!() };
    assert_eq!(one.id, "ab03");
    let Found::Several(several) = find("aa") else { panic!() };
    assert_eq!(several.iter().map(|record| &*record.id).collect::<Vec<_>>(), ["aa02", "aa01"]);
    assert_eq!(find("zz"), Found::Nothing);
    assert!(matches!(find("aa01"), Found::One(_)));
}

#[test]
fn a_row_that_nobody_understands_is_left_out_and_counted() {
    let bench = bench();
    let connection = rusqlite::Connection::open(&bench.path).unwrap();
    connection.execute("UPDATE calls SET ending = 'exploded' WHERE id = 'aa02'", []).unwrap();
    let queried = bench.ledger().query(&Filter::default(), |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((queried.records, queried.unreadable), (4, 1));
}

#[test]
fn what_is_no_ledger_is_refused() {
    let bench = Bench::new();
    let open = |path: &std::path::Path| match Ledger::open_read(path) {
        Ok(_) => panic!("{} opened", path.display()),
        Err(error) => error,
    };
    assert!(matches!(open(&bench.path), OpenError::Missing { .. }));
    assert!(matches!(open(bench.dir.path()), OpenError::NoLedger { what: "a folder", .. }));
    let text = bench.dir.path().join("notes.txt");
    std::fs::write(&text, "Buy milk. ".repeat(20)).unwrap();
    assert!(matches!(open(&text), OpenError::NoLedger { what: "no database", .. }));
    let other = bench.dir.path().join("other.sqlite");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(open(&other), OpenError::NoLedger { .. }));
}

#[test]
fn a_ledger_in_a_folder_without_write_access() {
    let bench = bench();
    // Folded in and closed: there is no log beside it.
    drop(bench.writer());
    let folder = bench.dir.path().join("ro?#% ü");
    std::fs::create_dir(&folder).unwrap();
    let copy = folder.join("ledger.sqlite");
    std::fs::copy(&bench.path, &copy).unwrap();
    let mut permissions = std::fs::metadata(&folder).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&folder, permissions.clone()).unwrap();
    let count = Ledger::open_read(&copy).unwrap().records(&Filter::default()).unwrap().len();
    #[expect(
        clippy::permissions_set_readonly_false,
        reason = "a folder of this test, removed at its end"
    )]
    permissions.set_readonly(false);
    std::fs::set_permissions(&folder, permissions).unwrap();
    assert_eq!(count, 5);
}

#[test]
fn pages_follow_each_other_while_calls_come() {
    let bench = Bench::new();
    let writer = bench.writer();
    // Three calls begin in each minute.
    for n in 0..20 {
        writer.record(entry(call(&format!("{n:02}"), n / 3, 100, 0)));
    }
    assert!(writer.flush(LONG));
    for order in [Order::NewestFirst, Order::OldestFirst] {
        let mut filter = Filter { order, limit: Some(6), ..Filter::default() };
        let expected = bench.ids(&Filter { limit: None, ..filter.clone() });
        let (mut seen, mut pages) = (Vec::new(), 0);
        loop {
            let page = bench.ledger().page(&filter).unwrap();
            seen.extend(page.records.into_iter().map(|record| record.id));
            pages += 1;
            if order == Order::NewestFirst {
                writer.record(entry(call(&format!("new {pages}"), 60 + pages, 100, 0)));
                assert!(writer.flush(LONG));
            }
            let Some(next) = page.next else { break };
            assert_eq!(next.to_string().parse(), Ok(next));
            filter.after = Some(next);
        }
        assert_eq!((seen, pages), (expected.clone(), (expected.len() as i64 + 5) / 6));
    }
    for wrong in ["", "1", "1.x", "x.1", "1.2.3", "9223372036854775808.1"] {
        assert!(wrong.parse::<tapri_ledger::Cursor>().is_err(), "{wrong}");
    }
}

#[test]
fn names_are_those_of_the_calls_that_may_be_seen() {
    let names = bench().ledger().names(None).unwrap();
    let list = |names: &std::collections::BTreeSet<String>| {
        names.iter().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(list(&names.tenants), "default t1");
    assert_eq!(list(&names.routes), "/v1/completions ask");
    assert_eq!((list(&names.models), list(&names.reasons)), ("m other".into(), "evicted".into()));
    let own = bench().ledger().names(Some("t1")).unwrap();
    assert_eq!((list(&own.tenants), list(&own.routes)), ("t1".into(), "ask".into()));
}
