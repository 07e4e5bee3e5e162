//! How JSON becomes our types: closed shapes, and errors that name the path.
//!
//! Every struct refuses unknown fields, which is right for requests. [`decode`] is that strict
//! reading. Clients read answers with [`decode_lenient`], so that a newer server may add fields.
//!
//! Tagged unions are declared with `tagged_union!`. Serde's own tagged enums buffer their content
//! and lose the path of an error inside; ours read the tag and then the variant's struct in passing, so
//! the path is whole, and unknown fields are refused in every variant.

mod tagged;

use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer};
use serde_json::Value;

pub(crate) use tagged::tagged_beside;
#[doc(hidden)]
pub use tagged::{Tagged, tagged, unknown_tag};

/// Why JSON was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The place inside the document, such as `capabilities.messaging.receive`; empty for the whole.
    pub path: String,
    /// What was expected and found.
    pub message: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for DecodeError {}

/// Reads a document of exactly this shape.
pub fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, DecodeError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| located(&error))?;
    reader.end().map_err(|error| unlocated(&error))?;
    Ok(value)
}

/// Reads a value of exactly this shape.
pub fn decode_value<T: DeserializeOwned>(value: Value) -> Result<T, DecodeError> {
    serde_path_to_error::deserialize(value).map_err(|error| located(&error))
}

/// Reads a document of this shape, ignoring fields that it does not know.
///
/// Unknown fields are rare (only a newer peer sends them), so they are found by their refusal, taken
/// out, and the rest is read again.
pub fn decode_lenient<T: DeserializeOwned>(json: &[u8]) -> Result<T, DecodeError> {
    let first = match decode(json) {
        Err(error) if error.names_unknown_field() => error,
        result => return result,
    };
    let mut value: Value = serde_json::from_slice(json).map_err(|error| unlocated(&error))?;
    let mut unknown = first;
    while remove(&mut value, &unknown.path) {
        match decode_value(value.clone()) {
            Err(error) if error.names_unknown_field() => unknown = error,
            result => return result,
        }
    }
    Err(unknown)
}

impl DecodeError {
    fn names_unknown_field(&self) -> bool {
        self.message.starts_with("unknown field `")
    }
}

/// Takes out the member at a dotted path; false when there is none.
fn remove(value: &mut Value, path: &str) -> bool {
    let (parents, field) = path.rsplit_once('.').unwrap_or(("", path));
    let mut place = value;
    for segment in segments(parents) {
        let next = match place {
            Value::Object(members) => members.get_mut(segment),
            Value::Array(items) => segment
                .parse()
                .ok()
                .and_then(|index: usize| items.get_mut(index)),
            _ => None,
        };
        match next {
            Some(next) => place = next,
            None => return false,
        }
    }
    place
        .as_object_mut()
        .is_some_and(|members| members.remove(field).is_some())
}

/// Splits `items[2].name` into `items`, `2`, `name`.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[', ']'])
        .filter(|segment| !segment.is_empty())
}

/// Marks the path of an error inside a tagged union on its way through serde, which carries text only.
const NESTED: (char, char) = ('\u{1}', '\u{2}');

fn located(error: &serde_path_to_error::Error<serde_json::Error>) -> DecodeError {
    let outer = error.path().to_string();
    let DecodeError { path, message } = unlocated(error.inner());
    DecodeError {
        path: join(&outer, &path),
        message,
    }
}

fn unlocated(error: &serde_json::Error) -> DecodeError {
    let mut text = error.to_string();
    if error.line() > 0 && error.is_data() {
        // The path says it better than a line and column of what is usually one line.
        let place = format!(" at line {} column {}", error.line(), error.column());
        text.truncate(text.strip_suffix(&place).map_or(text.len(), str::len));
    }
    match text
        .strip_prefix(NESTED.0)
        .and_then(|rest| rest.split_once(NESTED.1))
    {
        Some((path, message)) => DecodeError {
            path: path.to_owned(),
            message: message.to_owned(),
        },
        None => DecodeError {
            path: String::new(),
            message: text,
        },
    }
}

fn join(outer: &str, inner: &str) -> String {
    match (outer.trim_start_matches('.'), inner.trim_start_matches('.')) {
        ("" | "?", inner) => inner.to_owned(),
        (outer, "") => outer.to_owned(),
        (outer, inner) if inner.starts_with('[') => format!("{outer}{inner}"),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

/// Reads a value inside another, keeping the path of an error.
#[doc(hidden)]
pub fn variant<T: DeserializeOwned, E: de::Error>(rest: Value) -> Result<T, E> {
    decode_value(rest).map_err(|error| nested(&error.path, &error.message))
}

/// Reads one member of an object, keeping the path of an error.
#[doc(hidden)]
pub fn variant_at<T: DeserializeOwned, E: de::Error>(name: &str, value: Value) -> Result<T, E> {
    decode_value(value).map_err(|error| nested(&join(name, &error.path), &error.message))
}

fn nested<E: de::Error>(path: &str, message: &str) -> E {
    E::custom(format_args!("{}{path}{}{message}", NESTED.0, NESTED.1))
}

/// Declares an enum whose variants are told apart by a field of the object.
macro_rules! tagged_union {
    (
        $(#[$meta:meta])*
        pub enum $name:ident by $tag:tt {
            $($(#[$variant_meta:meta])* $literal:literal => $variant:ident($payload:ty),)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
        #[serde(tag = $tag)]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $literal)] $variant($payload),)+
        }

        impl $name {
            /// Every value that the tag can have.
            pub const TAGS: &[&str] = &[$($literal),+];

            /// The tag of this value.
            #[must_use]
            pub const fn tag(&self) -> &'static str {
                match self { $(Self::$variant(_) => $literal),+ }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::wire::tagged(deserializer)
            }
        }

        impl $crate::wire::Tagged for $name {
            const TAG: &'static str = $tag;

            fn read<'de, D: serde::Deserializer<'de>>(
                tag: &str,
                rest: D,
            ) -> Result<Self, D::Error> {
                match tag {
                    $($literal => serde::Deserialize::deserialize(rest).map(Self::$variant),)+
                    _ => Err($crate::wire::unknown_tag($tag, tag, Self::TAGS)),
                }
            }
        }
    };
}
pub(crate) use tagged_union;

/// Declares an enum of the spec's string literals.
macro_rules! literals {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $literal:tt,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $literal)] $variant,)+
        }

        impl $name {
            /// Every value, in the order of the spec.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The literal as it is on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $literal),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::wire::UnknownLiteral;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|value| value.as_str() == text)
                    .ok_or_else(|| $crate::wire::UnknownLiteral {
                        found: text.to_owned(),
                        expected: Self::ALL.iter().map(|value| value.as_str()).collect(),
                    })
            }
        }
    };
}
pub(crate) use literals;

/// A string that is none of an enum's literals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown value `{found}`, expected one of {}", expected.join(", "))]
pub struct UnknownLiteral {
    /// What was given.
    pub found: String,
    /// What could have been given.
    pub expected: Vec<&'static str>,
}

/// A type whose only value is JSON `true`, for capabilities that every session must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct True;

impl serde::Serialize for True {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl<'de> Deserialize<'de> for True {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? {
            Ok(Self)
        } else {
            Err(de::Error::custom("must be true, found false"))
        }
    }
}

impl schemars::JsonSchema for True {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "True".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "const": true })
    }
}

#[cfg(test)]
#[allow(unreachable_pub, dead_code, reason = "the macros declare public types")]
mod tests {
    use super::*;
    use serde::Serialize;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Circle {
        radius: u32,
    }

    tagged_union! {
        /// A shape.
        pub enum Shape by "kind" {
            /// A circle.
            "circle" => Circle(Circle),
        }
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Drawing {
        shapes: Vec<Shape>,
    }

    fn error(json: &str) -> String {
        decode::<Drawing>(json.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_path_through_unions() {
        let cases = [
            (
                r#"{"shapes":[{"kind":"circle","radius":"x"}]}"#,
                "shapes[0].radius: invalid type: string \"x\", expected u32",
            ),
            (
                r#"{"shapes":[{"kind":"circle","radius":1,"color":2}]}"#,
                "shapes[0].color: unknown field `color`, expected `radius`",
            ),
            (
                r#"{"shapes":[{"kind":"square"}]}"#,
                "shapes[0].kind: unknown value `square`, expected one of circle",
            ),
            (
                r#"{"shapes":[{"radius":1}]}"#,
                "shapes[0]: missing field `kind`",
            ),
            (
                r#"{"shapes":[],"more":1}"#,
                "more: unknown field `more`, expected `shapes`",
            ),
            // What comes before the tag is no different.
            (
                r#"{"shapes":[{"radius":"x","kind":"circle"}]}"#,
                "shapes[0].radius: invalid type: string \"x\", expected u32",
            ),
            (
                r#"{"shapes":[{"color":2,"kind":"circle","radius":1}]}"#,
                "shapes[0].color: unknown field `color`, expected `radius`",
            ),
            (
                r#"{"shapes":[{"radius":1,"kind":2}]}"#,
                "shapes[0].kind: expected a string, found 2",
            ),
            (
                r#"{"shapes":[{"radius":1,"kind":"circle","kind":"circle"}]}"#,
                "shapes[0].kind: unknown field `kind`, expected `radius`",
            ),
            (
                r#"{"shapes":[{"radius":1,"kind":"circle","radius":1}]}"#,
                "shapes[0]: duplicate field `radius`",
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(error(json), expected);
        }
    }

    #[test]
    fn the_tag_may_stand_anywhere() {
        for json in [
            r#"{"shapes":[{"kind":"circle","radius":1}]}"#,
            r#"{"shapes":[{"radius":1,"kind":"circle"}]}"#,
        ] {
            let drawing: Drawing = decode(json.as_bytes()).unwrap();
            assert_eq!(drawing.shapes, [Shape::Circle(Circle { radius: 1 })]);
        }
    }

    #[test]
    fn lenient_reading_drops_only_what_is_unknown() {
        let json = br#"{"shapes":[{"kind":"circle","radius":1,"a":{},"b":2}],"c":[]}"#;
        let drawing: Drawing = decode_lenient(json).unwrap();
        assert_eq!(drawing.shapes, [Shape::Circle(Circle { radius: 1 })]);
        assert!(decode_lenient::<Drawing>(br#"{"shapes":[{"kind":"circle","a":1}]}"#).is_err());
    }

    #[test]
    fn trailing_text_is_refused() {
        assert!(decode::<Drawing>(br#"{"shapes":[]} x"#).is_err());
    }
}
