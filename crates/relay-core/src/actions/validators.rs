//! Values against the schemas of actions. Compiled schemas are kept: compiling costs more than a call.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{PatternOptions, Validator};
use relay_protocol::action::RegisterAction;
use relay_protocol::problem::{ErrorCode, Problem};
use serde_json::Value;

use crate::store::{ActionNo, ActionRow};

/// Most actions whose schemas are kept.
const KEPT: usize = 1_000;

/// Most bytes of a regular expression that is compiled, in memory.
const PATTERN_BYTES: usize = 256 * 1024;

/// Most characters of what was found that an error repeats.
const SHOWN: usize = 200;

/// The compiled schemas of the actions that were called last.
#[derive(Default)]
pub(crate) struct Validators {
    known: Mutex<HashMap<ActionNo, (u32, Arc<Schemas>)>>,
}

/// The schemas of one action; none: nothing fits what can't be compiled.
struct Schemas {
    input: Option<Validator>,
    output: Option<Option<Validator>>,
}

/// What is wrong with a value, or with a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    path: String,
    why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self {
            path: Some(fault.path.clone()),
            ..Self::new(ErrorCode::InvalidRequest, fault.to_string())
        }
    }
}

impl Validators {
    /// Refuses schemas that can't be compiled.
    pub(crate) fn check(body: &RegisterAction) -> Result<(), Fault> {
        let schemas = [
            ("inputSchema", Some(&body.input_schema)),
            ("outputSchema", body.output_schema.as_ref()),
        ];
        for (name, schema) in schemas {
            if let Some(schema) = schema {
                compile(name, schema)?;
            }
        }
        Ok(())
    }

    /// What is wrong with the input of a call. Without one it is an empty object.
    pub(crate) fn fault(&self, action: &ActionRow, input: Option<&Value>) -> Option<Fault> {
        let empty = Value::Object(serde_json::Map::new());
        let schemas = self.schemas(action);
        first_fault("input", schemas.input.as_ref(), input.unwrap_or(&empty))
    }

    /// What is wrong with the output of a call.
    pub(crate) fn output_fault(&self, action: &ActionRow, output: Option<&Value>) -> Option<Fault> {
        let schemas = self.schemas(action);
        let schema = schemas.output.as_ref()?;
        first_fault("output", schema.as_ref(), output.unwrap_or(&Value::Null))
    }

    fn schemas(&self, action: &ActionRow) -> Arc<Schemas> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, schemas)) = known.get(&action.no)
            && *version == action.version
        {
            return schemas.clone();
        }
        drop(known);
        let output = action.body.output_schema.as_ref();
        let schemas = Arc::new(Schemas {
            input: compile("inputSchema", &action.body.input_schema).ok(),
            output: output.map(|schema| compile("outputSchema", schema).ok()),
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(action.no, (action.version, schemas.clone()));
        schemas
    }
}

/// Compiles a schema. Patterns are matched in linear time, whatever they are.
fn compile(name: &str, schema: &Value) -> Result<Validator, Fault> {
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES);
    jsonschema::options()
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| Fault {
            path: at(name, &error.instance_path().to_string()),
            why: shortened(&error.to_string()),
        })
}

fn first_fault(name: &str, schema: Option<&Validator>, value: &Value) -> Option<Fault> {
    let Some(schema) = schema else {
        return Some(Fault {
            path: name.to_owned(),
            why: "the schema of the action can't be used".to_owned(),
        });
    };
    let error = schema.iter_errors(value).next()?;
    Some(Fault {
        path: at(name, &error.instance_path().to_string()),
        why: shortened(&error.to_string()),
    })
}

/// `input.items.0.name` of `input` and `/items/0/name`.
fn at(name: &str, pointer: &str) -> String {
    format!("{name}{}", pointer.replace('/', "."))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
