//! Answers in a given form: what is asked for, how it is found in the text, and what is wrong with it.

use std::fmt;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::DirectError;
use super::answer::Answer;

/// Most bytes of text in which an answer is looked for.
const MAX_TEXT_BYTES: usize = 5 * 1024 * 1024;

/// Most things that are found wrong with one answer.
const MAX_ISSUES: usize = 20;

/// Most characters of what is wrong that are repeated.
const SHOWN: usize = 200;

/// Most bytes of a regular expression that is compiled, in memory.
const PATTERN_BYTES: usize = 256 * 1024;

/// How often an answer is asked for again when nothing else is said.
const RETRIES: u32 = 2;

/// The form of an answer: a JSON Schema.
#[derive(Debug)]
pub struct JsonForm {
    schema: Value,
    validator: Validator,
    /// How often an answer is asked for again.
    pub retries: u32,
}

/// Something that is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where, such as `/items/0/name`; empty: the answer itself.
    pub path: String,
    /// What.
    pub why: String,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.why),
            path => write!(f, "{path}: {}", self.why),
        }
    }
}

pub(super) fn list(issues: &[Issue]) -> String {
    let issues: Vec<String> = issues.iter().map(Issue::to_string).collect();
    issues.join("; ")
}

/// An answer of the form that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonAnswer {
    /// The answer.
    pub value: Value,
    /// How often it was asked for.
    pub attempts: u32,
    /// The last turn as a whole.
    pub answer: Answer,
}

impl JsonForm {
    /// The form that a schema describes. It may not refer to other documents.
    pub fn new(schema: Value) -> Result<Self, DirectError> {
        // Patterns are matched in linear time, whatever they are.
        let patterns = PatternOptions::regex()
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(PATTERN_BYTES);
        let validator = jsonschema::options()
            .with_pattern_options(patterns)
            .build(&schema)
            .map_err(|error| DirectError::Schema(shortened(&error.to_string())))?;
        Ok(Self {
            schema,
            validator,
            retries: RETRIES,
        })
    }

    pub(super) fn question(&self, prompt: &str) -> String {
        format!(
            "{prompt}\n\nAnswer with one JSON value and nothing else: no words around it, no code fence. \
             It must be valid against this JSON Schema:\n{}",
            self.schema
        )
    }

    pub(super) fn again(&self, issues: &[Issue]) -> String {
        let issues: Vec<String> = issues.iter().map(|issue| format!("- {issue}")).collect();
        format!(
            "That answer can't be used:\n{}\n\nAnswer again with one JSON value and nothing else, valid against this JSON Schema:\n{}",
            issues.join("\n"),
            self.schema
        )
    }

    /// Finds the answer in a text, or says what is wrong.
    pub(super) fn read(&self, text: &str) -> Result<Value, Vec<Issue>> {
        let whole = |why: &str| {
            vec![Issue {
                path: String::new(),
                why: why.to_owned(),
            }]
        };
        if text.len() > MAX_TEXT_BYTES {
            return Err(whole("the answer is too long"));
        }
        let value = find(text).ok_or_else(|| whole("there is no JSON in the answer"))?;
        let issues: Vec<Issue> = self
            .validator
            .iter_errors(&value)
            .take(MAX_ISSUES)
            .map(|error| Issue {
                path: error.instance_path().to_string(),
                why: shortened(&error.to_string()),
            })
            .collect();
        match issues.is_empty() {
            true => Ok(value),
            false => Err(issues),
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The JSON value in a text: all of it, else what is in a fence, else the first object or list that can be read.
fn find(text: &str) -> Option<Value> {
    let text = text.trim();
    let whole = serde_json::from_str(text).ok();
    whole.or_else(|| fenced(text)).or_else(|| first(text))
}

fn fenced(text: &str) -> Option<Value> {
    let mut parts = text.split("```").skip(1).step_by(2);
    parts.find_map(|part| {
        // The first line names the language.
        let inside = part.split_once('\n').map_or(part, |(_, inside)| inside);
        serde_json::from_str(inside.trim()).ok()
    })
}

/// Most places in a text where an answer may begin.
const MAX_BEGINNINGS: usize = 32;

fn first(text: &str) -> Option<Value> {
    let beginnings = text.match_indices(['{', '[']).take(MAX_BEGINNINGS);
    beginnings.map(|(at, _)| &text[at..]).find_map(|rest| {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        values.next()?.ok()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_found_in_what_agents_say() {
        let table = [
            (r#"{"a": 1}"#, Some(json!({"a": 1}))),
            ("  [1, 2]\n", Some(json!([1, 2]))),
            ("7", Some(json!(7))),
            (
                "Here it is:\n```json\n{\"a\": 1}\n```\nDone.",
                Some(json!({"a": 1})),
            ),
            ("```\n[1]\n```", Some(json!([1]))),
            (
                "```js\nnot json\n```\n```json\n{\"b\": 2}\n```",
                Some(json!({"b": 2})),
            ),
            (
                "Sure {well} and {\"a\": \"}\"} then",
                Some(json!({"a": "}"})),
            ),
            ("no json here", None),
            ("{\"a\": ", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(find(text), expected, "{text}");
        }
        let hostile = "[".repeat(200_000);
        assert_eq!(find(&hostile), None);
    }

    #[test]
    fn answers_are_checked() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "maximum": 9}}});
        let form = JsonForm::new(schema).unwrap();
        assert_eq!(form.read(r#"{"n": 3}"#), Ok(json!({"n": 3})));
        let issues = form.read(r#"{"n": "x"}"#).unwrap_err();
        assert_eq!(issues.len(), 1);
        assert_eq!(issues[0].path, "/n");
        assert!(form.again(&issues).contains("- /n: "));
        assert!(form.read("words").is_err());
        assert!(
            form.read(&"x".repeat(MAX_TEXT_BYTES + 1)).unwrap_err()[0]
                .why
                .contains("too long")
        );
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        for schema in [
            json!({"type": "hologram"}),
            json!({"$ref": "http://127.0.0.1:1/schema.json"}),
            json!({"type": "string", "pattern": "("}),
        ] {
            let error = JsonForm::new(schema.clone()).unwrap_err();
            assert_eq!(error.code(), "invalid-schema", "{schema}");
        }
    }
}
