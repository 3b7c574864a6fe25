//! The golden fixtures in `tests/assets/protocol`, which the Python side reads too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::*;
use crate::confine::Facts;
use crate::door::channel::Opening;
use crate::door::names::Rule;
use crate::door::report::HostTraffic;
use crate::door::report::Network;
use crate::error::{FrameError, SpawnError};
use crate::frames::{Decoder, Incoming, encode_head};
use crate::observe::{Fact, FactKind, Observed};
use crate::policy::{Bind, Enforced, Net, PolicyLimits, Proc, Tier};
use crate::process;

mod parked;

struct Fixture {
    header: Value,
    payload: Vec<u8>,
    frame: Vec<u8>,
    direction: String,
    error: Option<(String, Option<u64>)>,
}

fn fixtures() -> BTreeMap<String, Fixture> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/assets/protocol");
    let paths = std::fs::read_dir(directory).expect("is there").map(|entry| entry.expect("is read").path());
    let made = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    made.map(|path| read(&std::fs::read(path).expect("is read"))).collect()
}

fn read(text: &[u8]) -> (String, Fixture) {
    let value: Value = serde_json::from_slice(text).expect("is JSON");
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let fixture = Fixture {
        header: value["header"].clone(),
        payload: BASE64_STANDARD.decode(text("payload_b64").unwrap_or_default()).expect("is base64"),
        frame: from_hex(&text("frame_hex").expect("has a frame")),
        direction: text("direction").expect("has a direction"),
        error: text("error").map(|code| (code, value["error_id"].as_u64())),
    };
    (text("name").expect("has a name"), fixture)
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("is ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("is hexadecimal")).collect()
}

fn names(wanted: impl Fn(&Fixture) -> bool) -> BTreeSet<String> {
    fixtures().into_iter().filter(|(_, fixture)| wanted(fixture)).map(|(name, _)| name).collect()
}

/// All requests in these bytes, which come in pieces of a size.
fn decode(bytes: &[u8], size: usize) -> Result<Vec<Incoming>, FrameError> {
    let mut decoder = Decoder::default();
    let mut found = Vec::new();
    for piece in bytes.chunks(size) {
        decoder.feed(piece);
        while let Some(incoming) = decoder.next()? {
            found.push(incoming);
        }
    }
    decoder.finish().map(|()| found)
}

fn in_any_pieces(bytes: &[u8]) -> Result<Vec<Incoming>, FrameError> {
    let whole = decode(bytes, bytes.len());
    for size in [1, 2, 7, 8, 9] {
        assert_eq!(decode(bytes, size), whole, "in pieces of {size}");
    }
    whole
}

// --- requests ------------------------------------------------------------------------

fn os(bytes: &[u8]) -> OsText {
    OsText(bytes.to_vec())
}

fn run(id: u64, command: &str) -> RunRequest {
    RunRequest { id, command: command.into(), ..RunRequest::default() }
}

fn environment<const N: usize>(variables: [(&str, &[u8]); N]) -> BTreeMap<String, OsText> {
    variables.into_iter().map(|(name, value)| (name.to_owned(), os(value))).collect()
}

fn full_run() -> RunRequest {
    RunRequest {
        args: ["-c", "print('Grüße, {name} ${HOME}')", "", "a b\nc"].map(OsText::from).to_vec(),
        cwd: Some("/tmp/a dir".into()),
        env: environment([("PATH", b"/usr/bin:/bin"), ("EMPTY", b""), ("LANG", b"C.UTF-8")]),
        search_path: Some("/opt/bin:/usr/bin".into()),
        stdin: Stdin::Pipe,
        timeout_ms: Some(300_000),
        max_output: 4096,
        result_fd: true,
        digests: true,
        spool: Some(SpoolRequest { dir: "/tmp/spool".into(), max_bytes: 1_048_576 }),
        stream: Some(StreamRequest { credit: 262_144, interval_ms: 100, whole: false }),
        notify: true,
        quiet_ms: 100,
        ..run(2, "python3")
    }
}

fn whole_run() -> RunRequest {
    RunRequest {
        env: environment([("PATH", b"/usr/bin")]),
        stdin: Stdin::Pipe,
        stream: Some(StreamRequest { credit: 262_144, interval_ms: 0, whole: true }),
        ..run(2, "server")
    }
}

fn run_of_bytes() -> RunRequest {
    RunRequest {
        command: os(b"/tmp/caf\xe9"),
        args: vec!["plain".into(), os(b"\xff\xfe")],
        cwd: Some(os(b"/tmp/\x80")),
        env: environment([("BYTES", b"\xc3\x28"), ("TEXT", "é".as_bytes())]),
        search_path: Some(os(b"/usr/bin:/tmp/\xe9")),
        spool: Some(SpoolRequest { dir: os(b"/tmp/sp\xe9"), max_bytes: 64 * 1024 * 1024 }),
        ..run(4, "")
    }
}

fn policies() -> [RunRequest; 2] {
    let least = Policy { tier: Tier::Walls, ..Policy::default() };
    let opening = Opening {
        hosts: ["api.github.com", "*.pypi.org:8443"].map(|host| Rule::parse(host).expect("a rule")).into(),
        pinned: [(
            "api.github.com".to_owned(),
            vec![[10, 1, 2, 3].into(), "fd00::1".parse().expect("an address")],
        )]
        .into(),
        ..Opening::default()
    };
    let full = Policy {
        tier: Tier::Cell,
        require: Tier::Walls,
        read: vec!["/srv/data".into(), os(b"/srv/caf\xe9")],
        write: vec!["/home/ada/project".into()],
        protect: vec!["/home/ada/project/.git".into()],
        mask: vec!["/home/ada/project/.env".into()],
        binds: vec![Bind { source: "/srv/cache".into(), target: "/home/ada/.cache".into(), write: true }],
        devices: vec!["/dev/tty".into()],
        home: Some("/home/ada".into()),
        net: Net::Hosts(opening),
        limits: PolicyLimits {
            processes: Some(64),
            data: Some(1 << 30),
            memory: Some(2 << 30),
            temp: Some(1 << 28),
        },
    };
    [least, full].map(|policy| RunRequest { policy: Some(policy), ..run(7, "true") })
}

fn observed_run() -> RunRequest {
    let net = Net::Hosts(Opening { every_host_at: vec![80, 443], ..Opening::default() });
    RunRequest {
        policy: Some(Policy { tier: Tier::Cell, net, ..Policy::default() }),
        observe: Some(ObserveRequest { ignore: vec!["/run/copy".into()] }),
        ..run(7, "true")
    }
}

fn runs() -> Vec<(&'static str, RunRequest)> {
    let limits = |id, timeout_ms, max_output| RunRequest {
        timeout_ms: Some(timeout_ms),
        max_output,
        ..run(id, "true")
    };
    let env = environment([("PATH", b"/usr/bin:/bin")]);
    let [policy_least, policy_full] = policies();
    vec![
        ("run_policy", policy_least),
        ("run_policy_full", policy_full),
        ("run_observe", observed_run()),
        ("run_minimal", run(1, "/bin/true")),
        ("run_full", full_run()),
        ("run_whole", whole_run()),
        ("run_data", RunRequest { env, stdin: Stdin::Data, ..run(3, "cat") }),
        ("run_descriptors", RunRequest { descriptors: vec![5, 19, 4], ..run(7, "true") }),
        ("run_os_text", run_of_bytes()),
        ("run_largest_id", run(u64::MAX, "true")),
        ("run_longest_timeout", limits(5, MAX_TIMEOUT_MS, *OUTPUT_LIMITS.end())),
        ("run_shortest_timeout", limits(6, 1, *OUTPUT_LIMITS.start())),
    ]
}

fn kill(id: u64, run: Option<u64>, pid: Option<i64>, grace_ms: u64) -> Request {
    Request::Kill(KillRequest { id, run, pid, grace_ms })
}

fn requests() -> BTreeMap<&'static str, Request> {
    let runs = runs().into_iter().map(|(name, request)| (name, Request::Run(Box::new(request))));
    let status = |id, run, pid| Request::Status(StatusRequest { id, run, pid });
    let others = [
        ("input", Request::Input(InputRequest { id: 2, eof: false })),
        ("input_eof", Request::Input(InputRequest { id: 2, eof: true })),
        ("cancel", Request::Cancel(CancelRequest { id: 2, grace_ms: 500 })),
        ("cancel_grace", Request::Cancel(CancelRequest { id: 2, grace_ms: 0 })),
        ("credit", Request::Credit(CreditRequest { id: 2, bytes: 65_536 })),
        ("kill_pid", kill(7, None, Some(4711), 1500)),
        ("kill_run", kill(8, Some(2), None, 3000)),
        ("status_pid", status(9, None, Some(4711))),
        ("status_run", status(10, Some(2), None)),
        ("status_supervisor", status(11, None, None)),
        ("probe", Request::Probe(ProbeRequest { id: 12 })),
    ];
    runs.chain(others).chain(parked::requests()).collect()
}

#[test]
fn every_request_of_the_fixtures_is_understood() {
    let (made, expected) = (fixtures(), requests());
    let known: BTreeSet<String> = expected.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(known, names(|fixture| fixture.direction == "request" && fixture.error.is_none()));
    for (name, request) in expected {
        let Fixture { frame, payload, .. } = &made[name];
        let (id, payload, descriptors) = (request.id(), payload.clone(), request.descriptors());
        assert_eq!(refusal(&request, &payload), None, "{name}");
        let incoming = Incoming { id, request: Ok(request), payload, descriptors };
        assert_eq!(in_any_pieces(frame), Ok(vec![incoming]), "{name}");
    }
}

/// What is wrong with a request that could be read, as far as it can be told without doing anything.
fn refusal(request: &Request, payload: &[u8]) -> Option<RequestError> {
    match request {
        Request::Run(run) => run.check(payload).err(),
        Request::Call(call) => call.as_run().check(payload).err(),
        Request::Kill(KillRequest { run: None, pid: None, .. }) => {
            Some(RequestError::new("invalid_request", "kill", "the engine says it"))
        }
        Request::Kill(KillRequest { run, pid, .. }) | Request::Status(StatusRequest { run, pid, .. }) => {
            match target(*run, *pid) {
                Ok(Target::Pid(pid)) => process::is_alive(pid).err(),
                other => other.err(),
            }
        }
        Request::Input(_) | Request::Cancel(_) | Request::Credit(_) | Request::Probe(_) => None,
    }
}

#[test]
fn every_bad_request_of_the_fixtures_is_refused_with_its_code() {
    for (name, fixture) in fixtures() {
        let Some((code, error_id)) = &fixture.error else { continue };
        let found = match in_any_pieces(&fixture.frame) {
            Err(broken) => (broken.code().to_owned(), None),
            Ok(mut incoming) => {
                let Incoming { id, request, payload, .. } = incoming.pop().expect("one frame");
                let error = request.map_or_else(Some, |request| refusal(&request, &payload));
                (error.expect("is refused").code.to_owned(), Some(id))
            }
        };
        assert_eq!(found, (code.clone(), *error_id), "{name}");
    }
}

// --- events --------------------------------------------------------------------------

fn ended(kind: Kind, return_code: i32, signal: Option<i32>) -> RunResult {
    RunResult {
        kind,
        pid: Some(4711),
        return_code,
        signal,
        duration_ms: 1.25,
        usage: Usage { user_ms: 0.4, system_ms: 0.6, max_rss_kb: 1820 },
        stdout: StreamCounts::default(),
        stderr: StreamCounts::default(),
        result: None,
        truncated: false,
        cleanup: Cleanup::of(Vec::new(), 0),
        error: None,
        enforced: None,
        network: None,
        observed: None,
        parked: false,
    }
}

fn networked() -> RunResult {
    let rule = Rule::parse("api.github.com").expect("a rule");
    let traffic = |host: &str, connections| HostTraffic {
        host: host.to_owned(),
        port: 443,
        connections,
        ..HostTraffic::default()
    };
    let network = Network {
        served: true,
        ports: vec![443],
        hosts: vec![
            HostTraffic { sent: 517, received: 4096, ..traffic("api.github.com", 2) },
            HostTraffic { failed: [("private".to_owned(), 1)].into(), ..traffic("intranet.example", 1) },
        ],
        refused: vec![("evil.example".to_owned(), 3)],
        refused_beyond: 0,
        strays: 1,
        names: Vec::new(),
    };
    let enforced = Enforced {
        level: Tier::Cell,
        net: Net::Hosts(Opening { hosts: vec![rule], ..Opening::default() }),
        proc: Proc::Private,
        limits: vec!["processes".to_owned()],
        capabilities: Vec::new(),
        unenforced: Vec::new(),
        reason: None,
    };
    RunResult { enforced: Some(enforced), network: Some(network), ..ended(Kind::Exited, 0, None) }
}

fn observed() -> RunResult {
    let fact = |kind, what: &str| Fact { kind, what: what.to_owned() };
    let facts = vec![
        fact(FactKind::Read, "/home/ada/project/a b"),
        fact(FactKind::Write, "/home/ada/project/out"),
        fact(FactKind::Exec, "/usr/bin/git"),
        fact(FactKind::Connect, "198.18.0.1:443"),
    ];
    let mut result = networked();
    if let Some(network) = &mut result.network {
        let names = vec![("api.github.com".to_owned(), [198, 18, 0, 1].into())];
        *network = Network { refused: Vec::new(), strays: 0, names, ..network.clone() };
    }
    if let Some(enforced) = &mut result.enforced {
        enforced.net = Net::Hosts(Opening { every_host_at: vec![443], ..Opening::default() });
    }
    RunResult { observed: Some(Observed { facts, lost: 2 }), ..result }
}

fn whole(size: u64) -> StreamCounts {
    let sha256 = Some(Sha256Sum([0xab; 32]));
    StreamCounts { kept: size, head: size, total: size, sha256, ..StreamCounts::default() }
}

fn failed() -> RunResult {
    let error = SpawnError {
        code: "command_not_found".to_owned(),
        stage: "lookup".to_owned(),
        errno: Some(2),
        message: "no such command: nope".to_owned(),
    };
    RunResult {
        pid: None,
        duration_ms: 0.2,
        usage: Usage { user_ms: 0.0, system_ms: 0.0, max_rss_kb: 0 },
        error: Some(error),
        ..ended(Kind::SpawnFailed, -1, None)
    }
}

fn enforced() -> Enforced {
    Enforced {
        level: Tier::Walls,
        net: Net::Ports(vec![443]),
        proc: Proc::Shared,
        limits: vec!["data".to_owned()],
        capabilities: vec!["chown".to_owned()],
        unenforced: ["protected_paths", "cmdlines"].map(str::to_owned).to_vec(),
        reason: Some("no user namespaces here".to_owned()),
    }
}

fn results() -> Vec<(&'static str, u64, RunResult)> {
    let exited = || ended(Kind::Exited, 0, None);
    let timeout = |signal| ended(Kind::Timeout, -1, Some(signal));
    let cut = StreamCounts {
        kept: 8,
        head: 5,
        total: 1_000_008,
        omitted: 1_000_000,
        spooled: 900_008,
        lost: 99_997,
        sha256: Some(Sha256Sum([0xab; 32])),
    };
    let all = RunResult {
        stdout: whole(6),
        stderr: whole(5),
        result: Some(whole(11)),
        ..ended(Kind::Exited, 3, None)
    };
    let incomplete =
        RunResult { cleanup: Cleanup::of(vec![4712, 4713], 0), duration_ms: 7000.0, ..timeout(9) };
    vec![
        ("closed_exited", 1, RunResult { stdout: whole(6), ..exited() }),
        ("closed_all_streams", 2, all),
        (
            "closed_left_running",
            1,
            RunResult { stdout: whole(6), cleanup: Cleanup::of(Vec::new(), 2), ..exited() },
        ),
        ("closed_truncated", 2, RunResult { stdout: cut, truncated: true, ..exited() }),
        ("closed_signaled", 2, ended(Kind::Signaled, -11, Some(11))),
        ("closed_timeout", 2, RunResult { stdout: whole(8), duration_ms: 2001.5, ..timeout(15) }),
        ("closed_cancelled", 2, ended(Kind::Cancelled, -15, Some(15))),
        ("closed_cleanup_incomplete", 2, incomplete),
        ("closed_spawn_failed", 4, failed()),
        ("closed_enforced", 7, RunResult { enforced: Some(enforced()), ..exited() }),
        ("closed_network", 7, networked()),
        ("closed_observed", 7, observed()),
        ("closed_parked", 7, RunResult { duration_ms: 2001.5, parked: true, ..timeout(15) }),
    ]
}

fn error(id: Option<u64>, code: &str, stage: &str, errno: Option<i32>, message: &str) -> Event {
    let (code, stage, message) = (code.to_owned(), stage.to_owned(), message.to_owned());
    Event::Error { id, code, stage, errno, message }
}

fn answers() -> Vec<(&'static str, Event)> {
    let killed = |id, pid, method| Event::Killed { id, pid, method };
    let status = |id, status| Event::Status { id, status };
    let supervisor = Status::Supervisor { pid: 4700, warden: 4699, runs: 1, keepers: 4, idle_keepers: 3 };
    let facts: Facts =
        serde_json::from_value(fixtures()["probed"].header["facts"].clone()).expect("are facts");
    let lost = error(Some(2), "keeper_lost", "run", None, "the keeper of this run is gone");
    let denied = error(Some(7), "not_permitted", "kill", Some(1), "process 1 belongs to somebody else");
    vec![
        ("killed_pid", killed(7, Some(4711), KillMethod::Terminated)),
        ("killed_run", killed(8, None, KillMethod::Killed)),
        ("killed_already_dead", killed(7, Some(4711), KillMethod::AlreadyDead)),
        ("status_of_pid", status(9, Status::Pid { pid: 4711, alive: true })),
        ("status_of_run", status(10, Status::Run { run: 2, state: "running" })),
        ("status_of_unknown_run", status(10, Status::Run { run: 99, state: "unknown" })),
        ("status_of_supervisor", status(11, supervisor)),
        ("probed", Event::Probed { id: 12, facts }),
        ("error_of_run", lost),
        ("error_of_kill", denied),
        (
            "error_of_stream",
            error(None, "malformed_frame", "decode", None, "the header is not a JSON object"),
        ),
    ]
}

fn events() -> BTreeMap<&'static str, Event> {
    let output = |stream, seq, skipped| Event::Output { id: 2, stream, seq, skipped };
    let hello =
        Event::Hello { protocol: 1, version: "0.1.0", capabilities: &["result_fd", "spool", "stream"] };
    let others = [
        ("hello", hello),
        ("started", Event::Started { id: 2, pid: 4711, enforced: None }),
        ("started_enforced", Event::Started { id: 2, pid: 4711, enforced: Some(enforced()) }),
        ("output_stdout", output(Stream::Stdout, 0, 0)),
        ("output_stderr_skipped", output(Stream::Stderr, 1, 1_048_576)),
        ("output_result", output(Stream::Result, 2, 0)),
        ("credit_event", Event::Credit { id: 2, bytes: 65_536 }),
        ("exited", Event::Exited { id: 2, return_code: 0, signal: None }),
        ("exited_signal", Event::Exited { id: 2, return_code: -9, signal: Some(9) }),
        ("captured_stdout", Event::Captured { id: 2, stream: Stream::Stdout }),
        ("captured_result", Event::Captured { id: 2, stream: Stream::Result }),
    ];
    let closed = results()
        .into_iter()
        .map(|(name, id, result)| (name, Event::Closed { id, result: Box::new(result) }));
    others.into_iter().chain(parked::events()).chain(answers()).chain(closed).collect()
}

#[test]
fn every_event_of_the_fixtures_is_said_as_they_say_it() {
    let (made, expected) = (fixtures(), events());
    let known: BTreeSet<String> = expected.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(known, names(|fixture| fixture.direction == "event"));
    for (name, event) in expected {
        let Fixture { header, payload, frame, .. } = &made[name];
        let said = encode_head(&event, payload.len());
        let (prefix, json) = said.split_at(8);
        assert_eq!(serde_json::from_slice::<Value>(json).expect("is JSON"), *header, "{name}");
        let lengths = [json.len() as u32, payload.len() as u32].map(u32::to_be_bytes).concat();
        assert_eq!(prefix, lengths, "{name}");
        // The order of the keys is free, so only what surrounds them can be compared as bytes.
        assert_eq!(frame[..8], lengths, "{name}");
        assert!(frame.ends_with(payload), "{name}");
    }
}

#[test]
fn the_protocol_says_hello_as_documented() {
    let hello = serde_json::to_value(Event::hello()).expect("is JSON");
    assert_eq!((&hello["event"], &hello["protocol"]), (&Value::from("hello"), &Value::from(1)));
    assert_eq!(hello["version"], env!("CARGO_PKG_VERSION"));
}
