use crate::Shell;

fn help(args: &[&str]) -> String {
    // The width of the terminal is no part of what is held.
    let said = Shell::new().run(args);
    said.all()
}

#[test]
fn help_of_everything() {
    insta::assert_snapshot!("help", help(&["--help"]));
    insta::assert_snapshot!("help_ask", help(&["ask", "--help"]));
    insta::assert_snapshot!("help_cost", help(&["cost", "--help"]));
    insta::assert_snapshot!("help_config", help(&["config", "--help"]));
    insta::assert_snapshot!("help_explain", help(&["explain", "--help"]));
    insta::assert_snapshot!("help_keys", help(&["keys", "--help"]));
    insta::assert_snapshot!("help_lint", help(&["lint", "--help"]));
    insta::assert_snapshot!("help_prices", help(&["prices", "--help"]));
    insta::assert_snapshot!("help_calls", help(&["calls", "--help"]));
    insta::assert_snapshot!("help_calls_show", help(&["calls", "show", "--help"]));
    insta::assert_snapshot!("help_pull", help(&["pull", "--help"]));
    insta::assert_snapshot!("help_report", help(&["report", "--help"]));
    insta::assert_snapshot!("help_serve", help(&["serve", "--help"]));
    insta::assert_snapshot!("help_simulate", help(&["simulate", "--help"]));
}

#[test]
fn nothing_said_is_wrong_usage() {
    let said = Shell::new().run(&[]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("Usage: tapri <COMMAND>"), "{}", said.err);
}

#[test]
fn models_are_listed() {
    let shell = Shell::new();
    let listed = shell.command(&["pull"]).env("TAPRI_MODELS", "models").output().unwrap();
    insta::assert_snapshot!("pull", crate::Said::from(listed).all());
}
