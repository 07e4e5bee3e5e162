//! The two languages that stand in so many commands that they are worth a look: sed and awk.
//!
//! What is not of the few forms known here counts as code.

/// Whether sed's arguments only print, delete or replace.
pub(super) fn is_harmless_sed(arguments: &[&str]) -> bool {
    let mut scripts: Vec<&str> = Vec::new();
    let mut operands: Vec<&str> = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "-e" | "--expression" => scripts.extend(words.next()),
            "--quiet" | "--silent" | "--regexp-extended" | "--null-data" | "--version" => {}
            _ if word.starts_with("--") => return false,
            _ if word.len() > 1 && word.starts_with('-') => {
                if !word[1..].chars().all(|letter| "nErusz".contains(letter)) {
                    return false;
                }
            }
            _ => operands.push(word),
        }
    }
    if scripts.is_empty() {
        scripts.extend(operands.first());
    }
    scripts.iter().all(|script| is_harmless_sed_script(script))
}

fn is_harmless_sed_script(script: &str) -> bool {
    let Some(command) = after_address(script).and_then(|rest| match rest.strip_prefix(',') {
        Some(rest) => after_address(rest.trim_start_matches('+')),
        None => Some(rest),
    }) else {
        return false;
    };
    if script.contains('\n') {
        return false;
    }
    match command.trim_start_matches('!').strip_prefix('s') {
        Some(rest) => is_harmless_substitution(rest),
        None => matches!(command, "p" | "d" | "q" | "=" | "!p" | "!d"),
    }
}

/// What follows a line number, `$` or `/expression/`; all of it when there is no address.
fn after_address(script: &str) -> Option<&str> {
    if let Some(rest) = script.strip_prefix('/') {
        return field(rest, '/');
    }
    Some(
        script
            .strip_prefix('$')
            .unwrap_or_else(|| script.trim_start_matches(|c: char| c.is_ascii_digit() || c == '~')),
    )
}

fn is_harmless_substitution(rest: &str) -> bool {
    let mut characters = rest.chars();
    let Some(mark) = characters.next().filter(char::is_ascii_punctuation) else {
        return false;
    };
    let flags = field(characters.as_str(), mark).and_then(|rest| field(rest, mark));
    mark != '\\' && flags.is_some_and(|flags| flags.chars().all(|c| "gpiI0123456789".contains(c)))
}

/// What follows the next mark that no backslash hides.
fn field(text: &str, mark: char) -> Option<&str> {
    let mut hidden = false;
    for (at, c) in text.char_indices() {
        if !hidden && c == mark {
            return Some(&text[at + c.len_utf8()..]);
        }
        hidden = !hidden && c == '\\';
    }
    None
}

/// Whether awk's arguments neither run, write nor load anything.
pub(super) fn is_harmless_awk(arguments: &[&str]) -> bool {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if matches!(*word, "-F" | "-v") {
            words.next();
        } else if word.starts_with('-') && !word.starts_with("-F") && !word.starts_with("-v") {
            return false;
        } else if !word.starts_with('-') {
            let risky = ["system", "getline", "|", ">", "@", "close", "fflush"];
            if risky.iter().any(|risk| word.contains(risk)) {
                return false;
            }
        }
    }
    true
}
