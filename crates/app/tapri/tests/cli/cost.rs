use crate::Shell;

/// A file of 32,000 tokens, 20 questions.
const PLAN: [&str; 9] =
    ["cost", "--prefix", "32000", "--question", "200", "--answer", "500", "--calls", "20"];

#[test]
fn the_lawyers_bill() {
    let shell = Shell::new();
    let said = shell.run(&[&PLAN[..], &["--prices", "example"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    for figure in ["Rs 68.40", "Rs 19.76", "71 percent less", "94 percent of the bill"] {
        assert!(said.out.contains(figure), "{figure} in {}", said.out);
    }
    let times = ["--ttft-miss", "4", "--ttft-hit", "0.5", "--answer-time", "5"];
    let said = shell.run(&[&PLAN[..], &times].concat());
    assert!(said.out.contains("9 s without") && said.out.contains("5.5 s from"), "{}", said.out);
    insta::assert_snapshot!("plan", said.all());
    insta::assert_snapshot!(
        "plan_json",
        shell.run(&[&PLAN[..], &times, &["--json"]].concat()).all()
    );
}

#[test]
fn plans_at_other_prices() {
    let shell = Shell::new();
    let said = [
        vec!["--prices", "claude-sonnet-4-5"],
        vec!["--prices", "bundled", "--model", "claude-sonnet-4-5", "--ttl", "1h", "--gap", "20m"],
        vec!["--prices", "claude-sonnet-4-5", "--gap", "20m"],
        vec!["--prices", "gpt-5.6", "--batch", "--ttl", "12h"],
    ]
    .map(|more| shell.run(&[&PLAN[..], &more].concat()).all());
    insta::assert_snapshot!("plans", said.join("\n"));
    let long = ["cost", "--prefix", "300000", "--input-tokens", "300100", "--prices", "gpt-5.6"];
    assert!(shell.run(&long).out.contains("in all                              USD 48.02"));
}

#[test]
fn plans_that_caching_does_not_help() {
    let shell = Shell::new();
    let said = [
        vec!["--prefix", "32000", "--question", "200", "--answer", "500", "--calls", "1"],
        vec!["--prefix", "800", "--question", "200", "--answer", "500"],
        vec!["--prefix", "32000", "--gap", "3h"],
        vec!["--prefix", "2000", "--question", "200", "--answer", "30000"],
        vec!["--prefix", "0", "--question", "200", "--answer", "500"],
    ]
    .map(|more| shell.run(&[&["cost", "--prices", "claude-sonnet-4-5"], &more[..]].concat()).out);
    let said: Vec<_> = said
        .iter()
        .map(|out| {
            let lines = out.lines().filter(|l| l.contains("does not help") || l.contains("in all"));
            lines.collect::<Vec<_>>().join("\n")
        })
        .collect();
    insta::assert_snapshot!("plans_not_helped", said.join("\n"));
}

#[test]
fn bad_plans() {
    let shell = Shell::new();
    let said = [
        vec!["cost"],
        vec!["cost", "--prefix", "10", "--prices", "bundled"],
        vec!["cost", "--prefix", "10", "--prices", "bundled", "--model", "gpt-56"],
        vec!["cost", "--prefix", "10", "--batch"],
        vec!["cost", "--prefix", "10", "--prices", "claude-sonnet-4-5", "--ttl", "12h"],
        vec!["cost", "--prefix", "10", "--ttl", "2h"],
        vec!["cost", "--prefix", "10", "--input-tokens", "9"],
        vec!["cost", "--prefix", "10", "--ttft-miss", "-1", "--ttft-hit", "1"],
        vec!["cost", "--prefix", "10", "--ttft-miss", "1"],
    ]
    .map(|args| shell.run(&args).all());
    insta::assert_snapshot!("bad_plans", said.join("\n"));
}
