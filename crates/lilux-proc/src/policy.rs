//! What a run may do, fully resolved, and what was enforced of it. `docs/protocol.md` is its text.
//!
//! Whoever asks for a run decides what it may do, and says so in exact absolute paths and numbers. Nothing here knows what a
//! project is, or whose signature allows what. A policy says what is wanted (`tier`) and what is the least (`require`).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::door::channel::Opening;
use crate::error::RequestError;
use crate::text::OsText;

/// Together, so that a policy fits a message to a keeper.
const MAX_PATH_BYTES: usize = 24 * 1024;
const MAX_PATHS: usize = 512;
const MAX_PORTS: usize = 64;

/// How much stands between a tool and the machine. The order is that of strength.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    #[default]
    None,
    /// Landlock and seccomp.
    Walls,
    /// Namespaces of its own, with walls inside.
    Cell,
}

/// Which network a tool reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Net {
    #[default]
    None,
    Any,
    /// TCP to these ports of any address, and nothing else.
    Ports(Vec<u16>),
    /// These hosts by name, through the door.
    Hosts(Opening),
}

impl Net {
    /// The same network, without the addresses at which the client says that hosts are.
    pub fn unpinned(&self) -> Self {
        match self {
            Self::Hosts(opening) => Self::Hosts(Opening { pinned: BTreeMap::new(), ..opening.clone() }),
            other => other.clone(),
        }
    }
}

/// As on the wire: a word or an object.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum NetForm {
    Word(NetWord),
    Ports(NetPorts),
    Hosts(Opening),
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum NetWord {
    None,
    Any,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct NetPorts {
    ports: Vec<u16>,
}

impl<'de> Deserialize<'de> for Net {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match NetForm::deserialize(deserializer)? {
            NetForm::Word(NetWord::None) => Self::None,
            NetForm::Word(NetWord::Any) => Self::Any,
            NetForm::Ports(NetPorts { ports }) => Self::Ports(ports),
            NetForm::Hosts(opening) => Self::Hosts(opening),
        })
    }
}

impl Serialize for Net {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.clone() {
            Self::None => NetForm::Word(NetWord::None),
            Self::Any => NetForm::Word(NetWord::Any),
            Self::Ports(ports) => NetForm::Ports(NetPorts { ports }),
            Self::Hosts(opening) => NetForm::Hosts(opening),
        }
        .serialize(serializer)
    }
}

/// A place of the machine that a cell shows at another path.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    pub source: OsText,
    pub target: OsText,
    #[serde(default)]
    pub write: bool,
}

/// How much a tool may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyLimits {
    pub processes: Option<u64>,
    /// Bytes of private writable memory, of each process.
    pub data: Option<u64>,
    /// Bytes of everything that the run has in memory.
    pub memory: Option<u64>,
    /// Bytes of the private file system that holds HOME and the temporary directories of a cell.
    pub temp: Option<u64>,
}

/// What a tool may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub tier: Tier,
    /// With less than this the run is not started.
    #[serde(default)]
    pub require: Tier,
    #[serde(default)]
    pub read: Vec<OsText>,
    #[serde(default)]
    pub write: Vec<OsText>,
    /// Stays read-only inside what is writable.
    #[serde(default)]
    pub protect: Vec<OsText>,
    /// Is empty inside what is visible.
    #[serde(default)]
    pub mask: Vec<OsText>,
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// Beside null, zero, full, random and urandom.
    #[serde(default)]
    pub devices: Vec<OsText>,
    /// Where a private, empty home directory stands.
    #[serde(default)]
    pub home: Option<OsText>,
    #[serde(default)]
    pub net: Net,
    #[serde(default)]
    pub limits: PolicyLimits,
}

impl Policy {
    /// Refuses what no machine could enforce.
    pub fn check(&self) -> Result<(), RequestError> {
        let refuse = |message: String| Err(RequestError::new("invalid_request", "policy", message));
        if self.require > self.tier {
            return refuse("`require` asks for more than `tier`".to_owned());
        }
        if let Some(path) = self.paths().find(|path| !is_exact(&path.0)) {
            let found = path.shown();
            return refuse(format!(
                "expected exact absolute paths, without `.`, `..` and `//`, and not the root, found {found:?}"
            ));
        }
        let bytes: usize = self.paths().map(|path| path.0.len()).sum();
        if self.paths().count() > MAX_PATHS || bytes > MAX_PATH_BYTES {
            return refuse(format!("at most {MAX_PATHS} paths of {MAX_PATH_BYTES} bytes together"));
        }
        match &self.net {
            Net::Ports(ports) if ports.is_empty() || ports.len() > MAX_PORTS || ports.contains(&0) => {
                refuse(format!("`net.ports` takes 1 to {MAX_PORTS} ports, none of them 0"))
            }
            Net::Hosts(opening) => opening.check().or_else(|why| refuse(format!("`net`: {why}"))),
            _ => Ok(()),
        }
    }

    fn paths(&self) -> impl Iterator<Item = &OsText> {
        let lists = [&self.read, &self.write, &self.protect, &self.mask, &self.devices];
        let binds = self.binds.iter().flat_map(|bind| [&bind.source, &bind.target]);
        lists.into_iter().flatten().chain(binds).chain(&self.home)
    }
}

/// Absolute, and written in the one way in which the kernel would: what is compared later is compared as text.
fn is_exact(path: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(b"/") else { return false };
    !path.contains(&0) && rest.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}

/// Whose processes a tool sees in `/proc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proc {
    Private,
    #[default]
    Shared,
}

/// What the launch of a run confirmed: never what was wished.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Enforced {
    pub level: Tier,
    pub net: Net,
    pub proc: Proc,
    /// Of `processes`, `data`, `memory`, `temp`.
    pub limits: Vec<String>,
    /// Capabilities that root keeps, where it has to write what others own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// What the policy asked for, or the tier stands for, and is not so.
    pub unenforced: Vec<String>,
    /// Why the level is less than the tier that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Policy {
        serde_json::from_str(text).expect("is a policy")
    }

    #[test]
    fn what_is_left_out_is_the_least() {
        let policy = parse(r#"{"tier": "cell"}"#);
        assert_eq!(policy, Policy { tier: Tier::Cell, ..Policy::default() });
        assert_eq!((policy.net, policy.require), (Net::None, Tier::None));
    }

    #[test]
    fn a_policy_survives_the_way_to_a_keeper() {
        let policy = parse(
            r#"{"tier": "walls", "require": "walls", "read": ["/usr/x", {"b64": "L/8="}], "write": ["/p"],
                "protect": ["/p/.git"], "mask": ["/p/.env"], "binds": [{"source": "/a", "target": "/b"}],
                "devices": ["/dev/tty"], "home": "/home/ada", "net": {"ports": [443]},
                "limits": {"processes": 64, "temp": 1}}"#,
        );
        let text = serde_json::to_string(&policy).expect("is JSON");
        assert_eq!(parse(&text), policy);
        assert!(policy.check().is_ok());
    }

    #[test]
    fn only_exact_paths_are_taken() {
        for path in ["", "a", "/", "/a/", "/a//b", "/a/./b", "/a/../b", "/.."] {
            let policy = Policy { read: vec![path.into()], ..Policy::default() };
            assert!(policy.check().is_err(), "{path}");
        }
        for path in ["/a", "/a/..b", "/a/b c"] {
            let policy = Policy { read: vec![path.into()], ..Policy::default() };
            assert!(policy.check().is_ok(), "{path}");
        }
    }

    #[test]
    fn more_cannot_be_required_than_is_wanted() {
        let policy = Policy { tier: Tier::Walls, require: Tier::Cell, ..Policy::default() };
        assert!(policy.check().is_err());
    }

    #[test]
    fn a_network_is_a_word_or_one_list() {
        for bad in [r#""all""#, r#"{"ports": [70000]}"#, r#"{"ports": [1], "hosts": ["a"]}"#, "[]", "null"] {
            let text = format!(r#"{{"tier": "cell", "net": {bad}}}"#);
            assert!(serde_json::from_str::<Policy>(&text).is_err(), "{bad}");
        }
        for empty in [r#"{"ports": []}"#, r#"{"ports": [0]}"#, r#"{"hosts": []}"#] {
            assert!(parse(&format!(r#"{{"tier": "cell", "net": {empty}}}"#)).check().is_err(), "{empty}");
        }
    }
}
