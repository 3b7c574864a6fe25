//! The command line as somebody uses it: one command, one JSON object, one exit code.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// Runs `lilux-proc` with these arguments and this standard input.
fn call(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lilux-proc"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut pipe = child.stdin.take().expect("it was asked for");
    // It may have refused its arguments already, and then it does not read.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    child.wait_with_output().expect("it ends")
}

fn answer(arguments: &[&str]) -> Value {
    answer_to(arguments, "")
}

fn answer_to(arguments: &[&str], input: &str) -> Value {
    let output = call(arguments, input);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// A path of this test's own below the directory that Cargo keeps for tests.
fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(std::process::id().to_string());
    fs::create_dir_all(&directory).expect("can be made");
    directory.join(name)
}

#[test]
fn the_version_is_that_of_the_package() {
    let output = call(&["--version"], "");
    let expected = format!("lilux-proc {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn a_program_is_run_and_what_became_of_it_is_printed() {
    let script = "echo out; echo err >&2; exit 3";
    let ended = answer(&["exec", "--cmd", "/bin/sh", "--arg=-c", "--arg", script]);
    let expected = json!({"kind": "exited", "return_code": 3, "stdout": "out\n", "stderr": "err\n"});
    for (field, value) in expected.as_object().expect("is one") {
        assert_eq!(&ended[field], value, "{field}");
    }
    assert_eq!((&ended["success"], &ended["truncated"]), (&json!(false), &json!(false)));
    assert_eq!(ended["cleanup"], json!({"state": "complete", "pids": []}));
}

#[test]
fn a_run_that_takes_too_long_is_ended_and_what_it_said_is_kept() {
    let script = "echo so far; sleep 100";
    let ended = answer(&["exec", "--cmd", "sh", "--arg=-c", "--arg", script, "--timeout", "0.3"]);
    assert_eq!((&ended["kind"], &ended["return_code"]), (&json!("timeout"), &json!(-1)));
    assert_eq!(ended["stdout"], "so far\n");
    assert_eq!(ended["stderr"], "Command timed out after 0.3 seconds");
}

#[test]
fn a_program_that_is_not_there_is_an_answer_and_not_a_failure() {
    let ended = answer(&["exec", "--cmd", "no-such-program"]);
    assert_eq!((&ended["kind"], &ended["success"]), (&json!("spawn_failed"), &json!(false)));
    assert_eq!(ended["error"]["code"], "command_not_found");
}

#[test]
fn the_environment_of_this_command_is_that_of_the_program_and_can_be_added_to() {
    let ended = answer(&["exec", "--cmd", "sh", "--arg=-c", "--arg=echo $ADDED $HOME", "--env", "ADDED=1=2"]);
    let home = std::env::var("HOME").unwrap_or_default();
    assert_eq!(ended["stdout"].as_str().expect("is text").trim_end(), format!("1=2 {home}").trim_end());
}

#[test]
fn a_request_in_json_has_exactly_the_environment_that_it_names() {
    let request = json!({"command": "/usr/bin/env", "env": {"TOKEN": "s3cret"}}).to_string();
    assert_eq!(answer_to(&["exec", "--request", "-"], &request)["stdout"], "TOKEN=s3cret\n");
    let request = json!({"command": "cat", "input": "a text"}).to_string();
    assert_eq!(answer_to(&["exec", "--request", "-"], &request)["stdout"], "a text");
}

#[test]
fn a_spawned_process_outlives_the_command_and_can_be_asked_after_and_ended() {
    let log = scratch("log");
    let script = "echo started; exec sleep 100";
    let arguments = ["spawn", "--cmd", "sh", "--arg=-c", "--arg", script, "--log"];
    let spawned = answer(&[&arguments[..], &[log.to_str().expect("is text")]].concat());
    let pid = spawned["pid"].to_string();
    assert_eq!(answer(&["status", "--pid", &pid])["alive"], true);
    let killed = answer(&["kill", "--pid", &pid]);
    assert_eq!((&killed["success"], &killed["method"]), (&json!(true), &json!("terminated")));
    assert_eq!(answer(&["status", "--pid", &pid])["alive"], false);
    assert_eq!(answer(&["kill", "--pid", &pid])["method"], "already_dead");
    assert_eq!(fs::metadata(&log).expect("was made").permissions().mode() & 0o777, 0o600);
}

#[test]
fn numbers_that_are_no_process_are_refused_with_a_code() {
    for pid in ["0", "-1", "2147483648"] {
        for arguments in [["status", "--pid", pid], ["kill", "--pid", pid]] {
            assert_eq!(answer(&arguments)["error"]["code"], "invalid_pid", "{arguments:?}");
        }
    }
}

#[test]
fn wrong_use_is_told_on_standard_error_with_exit_code_two() {
    let cases: [&[&str]; 5] = [
        &["exec"],
        &["exec", "--cmd", "true", "--timeout", "0"],
        &["exec", "--cmd", "true", "--timeout", "nan"],
        &["exec", "--request", "-"],
        &["status", "--pid", "x"],
    ];
    for arguments in cases {
        let output = call(arguments, "not JSON");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn serve_says_hello_and_ends_with_its_input() {
    let output = call(&["serve"], "");
    let (prefix, hello) = output.stdout.split_at(8);
    assert_eq!(prefix[..4], (hello.len() as u32).to_be_bytes());
    let hello: Value = serde_json::from_slice(hello).expect("is JSON");
    assert_eq!((&hello["event"], &hello["protocol"]), (&json!("hello"), &json!(1)));
    assert!(output.status.success());
}
