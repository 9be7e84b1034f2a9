//! Why a call reused less than it could: on the answer, and in the ledger.

use serde_json::{Value, json};
use tapri_ledger::{Filter, Ledger, MissReason};

use crate::process::Server;
use crate::{post_with, read, wait_until};

fn ask(server: &Server, time: &str) -> Value {
    let policy = "You help users book, modify or cancel flight reservations. ".repeat(8);
    let body = json!({
        "max_tokens": 2, "temperature": 0,
        "messages": [
            {"role": "system", "content": format!("# Airline Agent Policy\n\nThe current time is {time} EST.\n\n{policy}")},
            {"role": "user", "content": "I want to change my flight."},
        ],
    });
    let reply = read(post_with(server, "/v1/chat/completions", "x-tapri-explain: 1\r\n", &body));
    serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn the_answer_and_the_record_name_the_time_that_changed() {
    for (flags, values) in [(&[][..], false), (&["--explain-values"][..], true)] {
        let server = Server::start(flags);
        let first = ask(&server, "2024-05-15 15:00:00");
        assert_eq!(first["tapri"]["explanation"]["reason"], "never_seen", "{first}");
        let second = ask(&server, "2024-05-15 15:03:12");
        let said = &second["tapri"]["explanation"];
        assert_eq!(said["place"]["path"], "messages[0].content");
        let found = second.to_string().contains("15:03:12");
        assert_eq!(found, values, "{second}");

        let records = || match Ledger::open_read(&server.ledger()) {
            Ok(ledger) => ledger.records(&Filter::default()).unwrap(),
            Err(_) => Vec::new(),
        };
        wait_until("both calls have records", || records().len() == 2);
        let explanation = records()[1].explanation.clone().unwrap();
        assert!(
            matches!(explanation.reason, MissReason::Time | MissReason::Date),
            "{explanation:?}"
        );
        assert_eq!(serde_json::to_value(&explanation).unwrap(), *said);
        assert_eq!(explanation.nearest.as_deref(), Some(&*records()[0].id));
    }
}
