use super::*;
use crate::explain::difference::common;

/// The reason and both values.
fn seen(old: &str, new: &str) -> Option<(MissReason, String, String)> {
    let found = recognise(old, new, common(old, new))?;
    Some((found.reason, old[found.old].to_owned(), new[found.new].to_owned()))
}

#[test]
fn every_shape_compiles() {
    assert_eq!(SHAPES.len(), 13);
}

#[test]
fn whole_values_are_named() {
    use MissReason::*;
    let cases = [
        ("It is 10:41:55.", "It is 10:42:07.", Time, "10:41:55", "10:42:07"),
        ("now 9:59 am, go", "now 10:01 am, go", Time, "9:59 am", "10:01 am"),
        ("at 3pm we", "at 4pm we", Time, "3pm", "4pm"),
        (
            "<2026-11-30T10:41:55Z>",
            "<2026-11-30T10:42:07Z>",
            Date,
            "2026-11-30T10:41:55Z",
            "2026-11-30T10:42:07Z",
        ),
        (
            "time is 2024-05-15 15:00:00 EST.",
            "time is 2024-05-16 15:00:00 EST.",
            Date,
            "2024-05-15 15:00:00 EST",
            "2024-05-16 15:00:00 EST",
        ),
        ("Today: 2026-11-30\n", "Today: 2026-12-01\n", Date, "2026-11-30", "2026-12-01"),
        ("Today: 15 May 2024, ok", "Today: 16 May 2024, ok", Date, "15 May 2024", "16 May 2024"),
        (
            "Date: Mon, 30 Nov 2026 10:41:55 +0000",
            "Date: Tue, 01 Dec 2026 00:00:01 +0000",
            Date,
            "Mon, 30 Nov 2026 10:41:55 +0000",
            "Tue, 01 Dec 2026 00:00:01 +0000",
        ),
        ("on May 15, 2024 we", "on June 1, 2024 we", Date, "May 15, 2024", "June 1, 2024"),
        ("Today is Monday.", "Today is Tuesday.", Date, "Monday", "Tuesday"),
        ("ts=1764495715 x", "ts=1764495777 x", Date, "1764495715", "1764495777"),
        ("ts=1764495715123 x", "ts=1764495777000 x", Date, "1764495715123", "1764495777000"),
        (
            "id 3f2b8c1e-aaaa-4bbb-8ccc-0123456789ab!",
            "id 9d2b8c1e-aaaa-4bbb-8ccc-0123456789ab!",
            Uuid,
            "3f2b8c1e-aaaa-4bbb-8ccc-0123456789ab",
            "9d2b8c1e-aaaa-4bbb-8ccc-0123456789ab",
        ),
        (
            "u=3f2b8c1eaaaa4bbb8ccc0123456789ab",
            "u=3f2b8c1eaaaa4bbb8ccc0123456789ac",
            Uuid,
            "3f2b8c1eaaaa4bbb8ccc0123456789ab",
            "3f2b8c1eaaaa4bbb8ccc0123456789ac",
        ),
        (
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "01ARZ3NDEKTSV4RRFFQ69G5FAW",
            Uuid,
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "01ARZ3NDEKTSV4RRFFQ69G5FAW",
        ),
        ("request_id: 8f3a-77", "request_id: 91bc-12", RequestId, "8f3a-77", "91bc-12"),
        ("Session: sess_Ab12", "Session: sess_Zz99", RequestId, "sess_Ab12", "sess_Zz99"),
        ("x-amzn-trace-id=1-5759", "x-amzn-trace-id=1-9999", RequestId, "1-5759", "1-9999"),
        ("This is turn 4 of 20.", "This is turn 5 of 20.", Counter, "4", "5"),
        ("Tokens remaining: 98112", "Tokens remaining: 95001", Counter, "98112", "95001"),
        ("step 9 begins", "step 10 begins", Counter, "9", "10"),
        ("User: Mia Li, gold", "User: Omar Rossi, gold", UserName, "Mia Li", "Omar Rossi"),
        ("Hello Mia, welcome", "Hello Noah, welcome", UserName, "Mia", "Noah"),
        (
            "user_name=mia_li_3668;",
            "user_name=yara_garcia_1905;",
            UserName,
            "mia_li_3668",
            "yara_garcia_1905",
        ),
        (
            "mail mia@example.org now",
            "mail noah@example.org now",
            UserName,
            "mia@example.org",
            "noah@example.org",
        ),
        (
            "nonce 9f86d081884c7d65",
            "nonce 2c26b46b68ffc68f",
            RandomValue,
            "9f86d081884c7d65",
            "2c26b46b68ffc68f",
        ),
        (
            "key: kJ8s+2Qx/v7Lm0a=",
            "key: Zp3d+9Ab/c1Xy7b=",
            RandomValue,
            "kJ8s+2Qx/v7Lm0a=",
            "Zp3d+9Ab/c1Xy7b=",
        ),
    ];
    for (old, new, reason, was, is) in cases {
        assert_eq!(seen(old, new), Some((reason, was.to_owned(), is.to_owned())), "{old} | {new}");
    }
}

#[test]
fn plain_words_are_nothing_special() {
    for (old, new) in [
        ("Answer in English.", "Answer in German."),
        ("You are a lawyer.", "You are a doctor."),
        ("The limit is 100 dollars", "The limit is 900 dollars"),
        ("naïve approach", "naïveté approach"),
        ("", "x"),
    ] {
        assert_eq!(seen(old, new), None, "{old} | {new}");
    }
}
