//! What is said about processes that are parked, as the fixtures say it.

use super::*;

fn parked_run() -> RunRequest {
    RunRequest {
        args: vec!["-B".into()],
        env: environment([("LANG", b"C.UTF-8")]),
        result_fd: true,
        policy: Some(Policy { tier: Tier::Cell, ..Policy::default() }),
        park: Some(ParkRequest { limit_ms: 60_000, awaited: false }),
        ..run(7, "python3")
    }
}

fn call() -> CallRequest {
    CallRequest {
        id: 7,
        args: Vec::new(),
        cwd: None,
        env: BTreeMap::new(),
        stdin: Stdin::Null,
        timeout_ms: None,
        max_output: DEFAULT_MAX_OUTPUT,
        digests: false,
        spool: None,
        stream: None,
        notify: false,
        quiet_ms: 0,
    }
}

fn full_call() -> CallRequest {
    CallRequest {
        args: vec!["tool.py".into(), os(b"\xff\xfe")],
        cwd: Some("/tmp/a dir".into()),
        env: environment([("A", b"1")]),
        stdin: Stdin::Data,
        timeout_ms: Some(300_000),
        max_output: 4096,
        digests: true,
        spool: Some(SpoolRequest { dir: "/tmp/spool".into(), max_bytes: 1_048_576 }),
        stream: Some(StreamRequest { credit: 262_144, interval_ms: 100, whole: false }),
        notify: true,
        quiet_ms: 100,
        ..call()
    }
}

fn zygote() -> RunRequest {
    RunRequest { prepare: true, result_fd: false, policy: None, env: environment([]), ..parked_run() }
}

fn forked_run() -> RunRequest {
    RunRequest {
        id: 8,
        zygote: Some(7),
        result_fd: true,
        park: Some(ParkRequest { limit_ms: 60_000, awaited: true }),
        ..run(8, "")
    }
}

pub fn requests() -> [(&'static str, Request); 5] {
    [
        ("run_zygote", Request::Run(Box::new(zygote()))),
        ("run_forked", Request::Run(Box::new(forked_run()))),
        ("run_parked", Request::Run(Box::new(parked_run()))),
        ("call_minimal", Request::Call(Box::new(call()))),
        ("call_full", Request::Call(Box::new(full_call()))),
    ]
}

pub fn events() -> [(&'static str, Event); 3] {
    let parked = |enforced, memory_kb| Event::Parked { id: 7, pid: 4711, enforced, memory_kb };
    [
        ("parked", parked(None, None)),
        ("parked_enforced", parked(Some(enforced()), None)),
        ("parked_zygote", parked(None, Some(9620))),
    ]
}

#[test]
fn a_parked_process_is_told_what_its_call_says() {
    let told: Value = serde_json::from_slice(&full_call().message()).expect("is JSON");
    let expected = serde_json::json!({
        "args": ["tool.py", {"b64": "//4="}], "cwd": "/tmp/a dir", "env": {"A": "1"}, "stdin": true
    });
    assert_eq!(told, expected);
    let told: Value = serde_json::from_slice(&call().message()).expect("is JSON");
    assert_eq!(told, serde_json::json!({"args": [], "cwd": null, "env": {}, "stdin": false}));
}
