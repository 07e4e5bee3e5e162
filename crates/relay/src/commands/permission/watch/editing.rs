//! Parameters in somebody's editor: a file that only they can read, which is gone afterwards.

use std::ffi::OsString;
use std::io::Write as _;

use relay_protocol::permission::ToolParams;
use tempfile::NamedTempFile;

/// The editor of whoever sits here.
pub(super) fn editor() -> Option<OsString> {
    let named = ["VISUAL", "EDITOR"].into_iter();
    named
        .filter_map(std::env::var_os)
        .find(|editor| !editor.is_empty())
}

/// Lets somebody change parameters; why not, otherwise.
pub(super) async fn edit(editor: &OsString, params: &ToolParams) -> Result<ToolParams, String> {
    let text = serde_json::to_string_pretty(params).unwrap_or_default();
    let file = private_file(&text).map_err(|error| format!("no file can be made: {error}"))?;
    // Editors are shell text: `code --wait`.
    let mut script = editor.clone();
    script.push(" \"$1\"");
    let ended = tokio::process::Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg("sh")
        .arg(file.path())
        .status()
        .await
        .map_err(|error| format!("the editor can't be started: {error}"))?;
    if !ended.success() {
        return Err(format!(
            "the editor ended with {ended}; nothing was changed"
        ));
    }
    // By its name: editors put another file in its place.
    let text = std::fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
    read(&text)
}

/// Parameters as JSON.
pub(super) fn read(text: &str) -> Result<ToolParams, String> {
    serde_json::from_str(text).map_err(|error| format!("expected an object as JSON: {error}"))
}

/// A file of mode 0600.
fn private_file(text: &str) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix("relay-params-")
        .suffix(".json")
        .tempfile()?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.flush()?;
    Ok(file)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::platform::mode;

    #[test]
    fn nobody_else_reads_what_is_edited() {
        let file = private_file("{}").unwrap();
        assert_eq!(mode(&file.as_file().metadata().unwrap()), Some(0o600));
    }

    #[tokio::test]
    async fn an_editor_changes_what_it_is_given() {
        let params = read(r#"{"command": "ls"}"#).unwrap();
        let editor = OsString::from("sed -i s/ls/pwd/");
        let edited = edit(&editor, &params).await.unwrap();
        assert_eq!(edited, read(r#"{"command": "pwd"}"#).unwrap());
        let failed = edit(&OsString::from("false"), &params).await.unwrap_err();
        assert!(failed.contains("nothing was changed"), "{failed}");
        let broken = edit(&OsString::from("sed -i s/{/x/"), &params)
            .await
            .unwrap_err();
        assert!(broken.starts_with("expected an object"), "{broken}");
    }
}
