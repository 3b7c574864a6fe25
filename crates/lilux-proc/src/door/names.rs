//! Names of hosts, and the patterns that allow them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A name as it is compared: lower case, without the dot at its end. `None` if no host can have it.
pub fn normalise(name: &[u8]) -> Option<String> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    let valid = |label: &[u8]| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if name.len() > MAX_NAME || !name.split(|byte| *byte == b'.').all(valid) {
        return None;
    }
    Some(name.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect())
}

const HTTPS: u16 = 443;

/// `name`, `*.name`, each perhaps with `:port`. The star stands for one label or more, never for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    name: String,
    any_below: bool,
    port: u16,
}

impl Rule {
    /// What is wrong with it is said in the error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = |expected: &str| Err(format!("expected {expected}, found {text:?}"));
        let (pattern, port) = match text.rsplit_once(':') {
            None => (text, Some(HTTPS)),
            Some((pattern, port)) => (pattern, parse_port(port)),
        };
        let Some(port) = port else { return refuse("a port from 1 to 65535") };
        let (any_below, name) = match pattern.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, pattern),
        };
        let Some(name) = normalise(name.as_bytes()) else {
            return refuse("the name of a host, perhaps with *. before it");
        };
        if is_number(name.rsplit('.').next().unwrap_or_default()) {
            return refuse("the name of a host, not an address");
        }
        if any_below && !name.contains('.') {
            return refuse("at least two labels below the star");
        }
        Ok(Self { name, any_below, port })
    }

    /// The port that it allows.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn matches(&self, name: &str) -> bool {
        if !self.any_below {
            return name == self.name;
        }
        name.strip_suffix(&self.name).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }
}

fn parse_port(text: &str) -> Option<u16> {
    // Rust's own parser takes a sign as well.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

/// The C library reads such a name as an address, in forms that few expect (`127.1`, `0x7f000001`).
fn is_number(label: &str) -> bool {
    let hexadecimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    label.bytes().all(|byte| byte.is_ascii_digit()) || label.strip_prefix("0x").is_some_and(hexadecimal)
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.any_below { "*." } else { "" };
        write!(formatter, "{star}{}:{}", self.name, self.port)
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Some port of this host may be reached, so its name may be looked up.
pub fn allow_name(rules: &[Rule], name: &str) -> bool {
    rules.iter().any(|rule| rule.matches(name))
}

/// This port of this host may be reached.
pub fn allow(rules: &[Rule], name: &str, port: u16) -> bool {
    rules.iter().any(|rule| rule.port == port && rule.matches(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|text| Rule::parse(text).expect("a rule")).collect()
    }

    #[test]
    fn names_are_compared_in_lower_case_and_without_the_last_dot() {
        let cases = [
            ("Example.COM", Some("example.com")),
            ("example.com.", Some("example.com")),
            ("_dmarc.a-b.example", Some("_dmarc.a-b.example")),
            ("localhost", Some("localhost")),
            ("", None),
            (".", None),
            ("example..com", None),
            ("example.com..", None),
            (".example.com", None),
            ("exa mple.com", None),
            ("exämple.com", None),
            ("example.com\0.evil.com", None),
            ("a/b.com", None),
        ];
        for (name, expected) in cases {
            assert_eq!(normalise(name.as_bytes()).as_deref(), expected, "{name:?}");
        }
        assert!(normalise("a".repeat(63).as_bytes()).is_some());
        assert!(normalise("a".repeat(64).as_bytes()).is_none());
        assert!(normalise("a.".repeat(126).as_bytes()).is_some());
        assert!(normalise(["a".repeat(50).as_str(); 5].join(".").as_bytes()).is_none());
    }

    #[test]
    fn rules_are_names_with_ports_and_nothing_else() {
        for text in ["example.com:443", "*.example.com:8443", "intranet:80", "*.EXAMPLE.com.:1", "a.example"]
        {
            let rule = Rule::parse(text).expect(text);
            assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
        }
        for text in [
            "example.com:",
            "example.com:0",
            "example.com:+80",
            "example.com:65536",
            "example.com:https",
            ":443",
            "*:443",
            "*.com:443",
            "*.*.example.com:443",
            "a.*.com:443",
            "*example.com:443",
            "127.0.0.1:80",
            "127.1:80",
            "0x7f000001:80",
            "1.0x7f:80",
            "127.0.0.1",
            "*",
            "2130706433:80",
            "[::1]:80",
            "::1:80",
            "http://example.com:80",
            "user@example.com:80",
            "",
        ] {
            assert!(Rule::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_star_stands_for_one_label_or_more() {
        let allowed = rules(&["*.example.com:443", "example.org:80", "example.org:8080"]);
        for name in ["a.example.com", "a.b.example.com", "example.org"] {
            assert!(allow_name(&allowed, name), "{name}");
        }
        for name in
            ["example.com", ".example.com", "badexample.com", "a.example.org", "example.com.evil.org", "com"]
        {
            assert!(!allow_name(&allowed, name), "{name}");
        }
        assert!(allow(&allowed, "a.example.com", 443) && !allow(&allowed, "a.example.com", 80));
        assert!(allow(&allowed, "example.org", 80) && allow(&allowed, "example.org", 8080));
        assert!(!allow(&allowed, "example.org", 443));
    }
}
