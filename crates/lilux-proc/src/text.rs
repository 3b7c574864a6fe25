//! Operating-system strings on the wire.
//!
//! An argument, a path or an environment value is bytes. JSON has only Unicode, so what is UTF-8 travels as a string and
//! the rest as `{"b64": "…"}`. Nothing is ever replaced or dropped on the way.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A string of the operating system: any bytes. (NUL is refused later, where a message can name the argument.)
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OsText(pub Vec<u8>);

impl OsText {
    /// The text for a message: what is not UTF-8 is shown as U+FFFD.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl From<&str> for OsText {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl Serialize for OsText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        if let Ok(text) = std::str::from_utf8(&self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("b64", &BASE64_STANDARD.encode(&self.0))?;
        map.end()
    }
}

struct OsTextVisitor;

impl<'de> Visitor<'de> for OsTextVisitor {
    type Value = OsText;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string or {\"b64\": \"…\"}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OsText, E> {
        Ok(OsText(text.as_bytes().to_vec()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<OsText, E> {
        Ok(OsText(text.into_bytes()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OsText, A::Error> {
        let entry: Option<(String, String)> = map.next_entry()?;
        let Some((key, encoded)) = entry else {
            return Err(de::Error::missing_field("b64"));
        };
        if key != "b64" || map.next_entry::<String, String>()?.is_some() {
            return Err(de::Error::unknown_field(&key, &["b64"]));
        }
        let bytes = BASE64_STANDARD.decode(encoded).map_err(de::Error::custom)?;
        Ok(OsText(bytes))
    }
}

impl<'de> Deserialize<'de> for OsText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OsTextVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::OsText;

    #[test]
    fn bytes_that_are_not_utf8_survive_the_round_trip() {
        for bytes in [&b"plain"[..], b"\xff\xfe", b"", "żółw".as_bytes(), b"a\x00b"] {
            let text = OsText(bytes.to_vec());
            let json = serde_json::to_string(&text).expect("a text is always JSON");
            assert_eq!(serde_json::from_str::<OsText>(&json).expect("and back"), text);
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        for json in ["1", "null", "[]", "{}", r#"{"b64":"@"}"#, r#"{"hex":"00"}"#, r#"{"b64":"","x":""}"#] {
            assert!(serde_json::from_str::<OsText>(json).is_err(), "{json}");
        }
    }
}
