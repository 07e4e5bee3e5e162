//! The files that a patch touches.

/// What a line begins with that names a file.
const HEADERS: &[&str] = &[
    "*** Add File:",
    "*** Update File:",
    "*** Delete File:",
    "*** Move to:",
];

/// The files in the headers of a patch; `None` when it is not of the known form.
///
/// Blanks before a header are not minded: whoever applies the patch may not mind them either.
pub(crate) fn touched(patch: &str) -> Option<Vec<String>> {
    let mut lines = patch.trim().lines().map(str::trim);
    if lines.next()? != "*** Begin Patch" {
        return None;
    }
    let mut files = Vec::new();
    for line in lines {
        if !line.starts_with("***") || matches!(line, "*** End Patch" | "*** End of File") {
            continue;
        }
        let name = HEADERS
            .iter()
            .find_map(|header| line.strip_prefix(header))?
            .trim();
        if name.is_empty() {
            return None;
        }
        files.push(name.to_owned());
    }
    Some(files).filter(|files| !files.is_empty())
}

#[cfg(test)]
mod tests {
    use super::touched;

    #[test]
    fn every_header_names_a_file() {
        let patch = "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b\n*** Move to: c d\n@@\n-*** no\n *** Delete File: e\n*** End Patch";
        assert_eq!(touched(patch).unwrap(), ["a", "b", "c d", "e"]);
        for unknown in [
            "",
            "--- a\n+++ b",
            "*** Begin Patch\n*** Rename File: x",
            "*** Begin Patch\n*** Add File:\n",
        ] {
            assert_eq!(touched(unknown), None, "{unknown}");
        }
    }
}
