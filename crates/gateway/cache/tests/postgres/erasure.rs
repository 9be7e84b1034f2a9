//! What is erased is looked for in the tables themselves.

use tapri_cache::exact::{Filter, Key};
use tapri_cache::semantic::cache::Decision;
use tapri_cache::semantic::store::{Owner, Verdict};

use crate::server::Server;
use crate::{NEAR, STORED, asked, cache, keep, label, look, owner, patient, shadowed, until};

/// Names what is to be erased.
type Erase = fn(&mut Filter);

#[test]
fn what_is_erased_is_nowhere() {
    let erasures: [(&str, Erase); 4] = [
        ("tenant", |filter| filter.tenant = Some("acme".into())),
        ("route", |filter| filter.route = Some("/r".into())),
        ("session", |filter| filter.session = Some("s1".into())),
        ("document", |filter| filter.document = Some("lease.pdf".into())),
    ];
    let server = Server::start();
    let (one, two) = (cache(&server.url(), patient()), cache(&server.url(), patient()));
    until("the tables are there", || one.refresh().is_ok());
    let mine =
        Owner { session: Some("s1".to_owned()), document: Some("lease.pdf".to_owned()), ..owner() };
    let theirs =
        Owner { tenant: "other".to_owned(), route: "/else".to_owned(), ..Owner::default() };
    for (what, erase) in erasures {
        keep(&one, STORED, 1, mine.clone());
        keep(&one, "Where is my parcel?", 2, theirs.clone());
        let before = look(&two, NEAR);
        let mut pair = label(&before, shadowed(&before).id, Verdict::Unsettled);
        pair.owner = mine.clone();
        two.learn(pair, before.epoch);
        two.refresh().unwrap();
        assert!(server.everything().contains("cancel my plan"));
        let mut filter = Filter::default();
        erase(&mut filter);
        assert_eq!(one.purge(&filter).unwrap(), 1, "{what}");
        assert!(!server.everything().contains("cancel my plan"), "{what}");
        assert_eq!(server.questions(), 1, "another's stays: {what}");
        assert_eq!(look(&two, NEAR).decision, Decision::Nothing);
        // What the other process began before the erasure is not kept after it.
        two.keep(&asked(NEAR), &before, Key::from_bytes([3; 32]), mine.clone());
        for verdict in [Verdict::Same, Verdict::Unsettled] {
            two.learn(label(&before, 1, verdict), before.epoch);
        }
        two.refresh().unwrap();
        assert!(!server.everything().contains("cancel my plan"), "{what}");
        one.purge(&Filter::default()).unwrap();
        assert_eq!(server.everything(), "", "{what}");
    }
}
