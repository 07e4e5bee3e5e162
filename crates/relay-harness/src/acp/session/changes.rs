//! What a tool call changes in files: by the diffs that it shows, or by the files that it says it deletes.

use relay_protocol::session_event::{FileChanged, FileOperation};

use crate::acp::event::{ToolCall, ToolContent};

/// Most files of one call that are told of.
const MAX_FILES: usize = 256;

/// What an update of a call of this kind says about files.
pub(super) fn read(call: &ToolCall, kind: Option<&str>) -> Vec<FileChanged> {
    let diffs = call.content.iter().filter_map(|content| match content {
        ToolContent::Diff {
            path,
            old_text,
            new_text,
        } => Some(changed(
            path,
            operation(old_text.as_deref(), new_text, kind),
        )),
        _ => None,
    });
    let diffs: Vec<FileChanged> = diffs.take(MAX_FILES).collect();
    if !diffs.is_empty() || kind != Some("delete") {
        return diffs;
    }
    let deleted = call.locations.iter();
    let deleted = deleted.map(|path| changed(path, FileOperation::Delete));
    deleted.take(MAX_FILES).collect()
}

/// A diff has the old text and the new one; that a file is gone shows in what the call is.
fn operation(old: Option<&str>, new: &str, kind: Option<&str>) -> FileOperation {
    match (old, kind) {
        (Some(_), Some("delete")) if new.is_empty() => FileOperation::Delete,
        // Some agents have an empty text for no file.
        (None | Some(""), _) => FileOperation::Create,
        (Some(_), _) => FileOperation::Update,
    }
}

/// Without the diff itself: an agent tells of pieces of files, and a piece has no place in a diff.
fn changed(path: &str, operation: FileOperation) -> FileChanged {
    FileChanged {
        path: path.to_owned(),
        operation,
        diff: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn files_are_created_changed_and_deleted() {
        let diff = |path: &str, old: Value, new: &str| json!({"type": "diff", "path": path, "oldText": old, "newText": new});
        let call = json!({"toolCallId": "c", "locations": [{"path": "/w/d"}], "content": [
            diff("/w/a", Value::Null, "x"), diff("/w/e", json!(""), "x"), diff("/w/b", json!("a"), "b"), diff("/w/c", json!("a"), ""),
        ]});
        let call = ToolCall::read(&call).unwrap();
        let told = |kind| {
            let changes = read(&call, kind).into_iter();
            let told = changes.map(|change| format!("{} {}", change.operation, change.path));
            told.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(
            told(Some("edit")),
            "create /w/a, create /w/e, update /w/b, update /w/c"
        );
        assert_eq!(
            told(Some("delete")),
            "create /w/a, create /w/e, update /w/b, delete /w/c"
        );
        let bare = ToolCall {
            content: Vec::new(),
            ..call.clone()
        };
        assert_eq!(read(&bare, Some("edit")), []);
        assert_eq!(
            read(&bare, Some("delete")),
            [changed("/w/d", FileOperation::Delete)]
        );
    }
}
