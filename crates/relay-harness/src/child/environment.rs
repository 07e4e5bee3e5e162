//! The environment of a child: cleared, then filled from an allow-list.
//!
//! Pure: the parent's variables come in as an iterator. Nothing that could act on the relay gets through, under
//! whatever name: values are looked at, too.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variable in which a child finds its own agent token, when it is given one.
pub const TOKEN_VARIABLE: &str = "RELAY_TOKEN";

/// What every program may know: who and where it is, how to show text, how to reach the network.
const ALLOWED: &[&str] = &[
    // The user and the machine
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TZ",
    // Text and terminals
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    // Ways out of a closed network
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    // Where tools are installed
    "CARGO_HOME",
    "RUSTUP_HOME",
    "NVM_DIR",
    "VOLTA_HOME",
    "PNPM_HOME",
    "PYENV_ROOT",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    // Directories of the desktop standard; other XDG_ variables tell about the login session
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_HOME",
    "XDG_DATA_DIRS",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    // Without these hardly anything runs on Windows
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "COMSPEC",
    "PATHEXT",
    "TEMP",
    "TMP",
    "USERPROFILE",
    "USERNAME",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "PROGRAMFILES",
];

/// Families of names that are allowed as a whole.
const ALLOWED_PREFIXES: &[&str] = &["LC_"];

/// Names that are the relay's own; the parent's are never passed on.
const OWN_PREFIX: &str = "RELAY_";

/// What the relay's credentials begin with.
const CREDENTIALS: &[&str] = &["rk_", "ak_", "at_", "ot_", "wh_"];

/// The one credential that a child may have: its own agent's.
const AGENT_TOKEN: &str = "at_";

/// Fewest characters after the prefix that make a word a credential.
const CREDENTIAL_CHARS: usize = 16;

/// A variable that was asked for by name, or given, and kept back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// Its value holds a credential of the relay.
    Credential(String),
    /// The name is the relay's own.
    Own(String),
    /// It is no name of a variable, or its value can't be one.
    Malformed(String),
}

/// The variables of a child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildEnvironment {
    variables: BTreeMap<OsString, OsString>,
    withheld: Vec<Withheld>,
}

impl ChildEnvironment {
    /// Takes from the parent what every program may know and what is named here, then adds the extras.
    ///
    /// The parent's `RELAY_*` are left behind, also when named, and so is every value with a credential of the relay in it.
    /// Extras are the caller's word: they may be the relay's names, and [`TOKEN_VARIABLE`] may be the child's own agent
    /// token. No other credential passes here either.
    pub fn for_agent<K, V, N, E, F>(
        parent: impl IntoIterator<Item = (K, V)>,
        names: &[N],
        extras: impl IntoIterator<Item = (E, F)>,
    ) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
        N: AsRef<str>,
        E: Into<OsString>,
        F: Into<OsString>,
    {
        let mut environment = Self::default();
        for (name, value) in parent {
            environment.inherit(name.into(), value.into(), names);
        }
        for (name, value) in extras {
            environment.add(name.into(), value.into());
        }
        environment
    }

    /// Adds a variable under the rules for extras.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.add(name.into(), value.into());
        self
    }

    /// The variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
    }

    /// What was kept back although it was asked for.
    #[must_use]
    pub fn withheld(&self) -> &[Withheld] {
        &self.withheld
    }

    fn inherit<N: AsRef<str>>(&mut self, name: OsString, value: OsString, names: &[N]) {
        let shown = name.to_string_lossy().into_owned();
        let named = names.iter().any(|known| same_name(known.as_ref(), &shown));
        if !named && !is_allowed(&shown) {
            return;
        }
        if !is_variable(&name, &value) {
            self.withheld.push(Withheld::Malformed(shown));
        } else if shown.to_ascii_uppercase().starts_with(OWN_PREFIX) {
            self.withheld.push(Withheld::Own(shown));
        } else if credentials_in(&value.to_string_lossy()).next().is_some() {
            self.withheld.push(Withheld::Credential(shown));
        } else {
            self.variables.insert(name, value);
        }
    }

    fn add(&mut self, name: OsString, value: OsString) {
        let shown = name.to_string_lossy().into_owned();
        let text = value.to_string_lossy();
        let own_token = shown == TOKEN_VARIABLE;
        let foreign = credentials_in(&text).any(|found| !(own_token && found == AGENT_TOKEN));
        if !is_variable(&name, &value) {
            self.withheld.push(Withheld::Malformed(shown));
        } else if foreign {
            self.withheld.push(Withheld::Credential(shown));
        } else {
            self.variables.insert(name, value);
        }
    }
}

fn is_allowed(name: &str) -> bool {
    ALLOWED.iter().any(|known| same_name(known, name))
        || ALLOWED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Names of variables differ by case, but not on Windows.
fn same_name(one: &str, other: &str) -> bool {
    match cfg!(windows) {
        true => one.eq_ignore_ascii_case(other),
        false => one == other,
    }
}

fn is_variable(name: &OsStr, value: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let well_named = !name.is_empty() && !name.iter().any(|byte| matches!(byte, b'=' | 0));
    well_named && !value.as_encoded_bytes().contains(&0)
}

/// The prefixes of the relay's credentials that are in a text, at the beginning of a word.
fn credentials_in(text: &str) -> impl Iterator<Item = &'static str> + '_ {
    CREDENTIALS.iter().copied().filter(|prefix| {
        text.match_indices(prefix).any(|(at, _)| {
            let begins = !text[..at].ends_with(is_word);
            let rest = &text[at + prefix.len()..];
            begins && rest.chars().take_while(|char| is_word(*char)).count() >= CREDENTIAL_CHARS
        })
    })
}

const fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "rk_0123456789abcdef0123456789abcdef";
    const ADMIN: &str = "ak_0123456789abcdef0123456789abcdef";
    const TOKEN: &str = "at_0123456789abcdef0123456789abcdef";
    const NONE: [(&str, &str); 0] = [];

    fn names(environment: &ChildEnvironment) -> Vec<&str> {
        environment
            .iter()
            .map(|(name, _)| name.to_str().unwrap())
            .collect()
    }

    #[test]
    fn what_a_child_gets_of_its_parent() {
        let passes = |name: &str, value: &str, asked: &[&str]| {
            let child = ChildEnvironment::for_agent([(name, value)], asked, NONE);
            child.get(name).is_some()
        };
        let table = [
            // name, value, names that the entry lists, whether it passes
            ("PATH", "/usr/bin", &[][..], true),
            ("HOME", "/home/ann", &[], true),
            ("LC_ALL", "C.UTF-8", &[], true),
            ("XDG_CONFIG_HOME", "/home/ann/.config", &[], true),
            ("XDG_SESSION_ID", "3", &[], false),
            ("HTTPS_PROXY", "http://proxy:3128", &[], true),
            ("EDITOR", "vi", &[], false),
            ("LD_PRELOAD", "/tmp/x.so", &[], false),
            ("SSH_AUTH_SOCK", "/tmp/agent", &[], false),
            ("ANTHROPIC_API_KEY", "sk-ant-1", &[], false),
            (
                "ANTHROPIC_API_KEY",
                "sk-ant-1",
                &["ANTHROPIC_API_KEY"],
                true,
            ),
            ("ANTHROPIC_API_KEY", "sk-ant-1", &["OPENAI_API_KEY"], false),
            ("RELAY_URL", "http://127.0.0.1:4000", &[], false),
            ("RELAY_TOKEN", TOKEN, &["RELAY_TOKEN"], false),
            ("RELAY_DATA", "/var/lib/relay", &["RELAY_DATA"], false),
            ("relay_token", "x", &["relay_token"], false),
            ("OPENAI_API_KEY", KEY, &["OPENAI_API_KEY"], false),
            ("OPENAI_API_KEY", ADMIN, &["OPENAI_API_KEY"], false),
            ("OPENAI_API_KEY", TOKEN, &["OPENAI_API_KEY"], false),
            ("LANG", KEY, &[], false),
            ("NOTE", "Bearer ot_0123456789abcdef", &["NOTE"], false),
            // Only looks like one: too short, or inside a word.
            ("NOTE", "ak_47", &["NOTE"], true),
            ("NOTE", "break_0123456789abcdef01234", &["NOTE"], true),
        ];
        for (name, value, asked, expected) in table {
            assert_eq!(
                passes(name, value, asked),
                expected,
                "{name}={value} {asked:?}"
            );
        }
    }

    #[test]
    fn extras_are_the_callers_word_but_no_key_passes() {
        let table = [
            ("RELAY_URL", "http://127.0.0.1:4000", true),
            ("RELAY_TOKEN", TOKEN, true),
            ("RELAY_TOKEN", KEY, false),
            ("RELAY_TOKEN", ADMIN, false),
            ("OTHER", TOKEN, false),
            ("OTHER", "x", true),
            ("", "x", false),
            ("A=B", "x", false),
            ("A", "x\0y", false),
        ];
        for (name, value, expected) in table {
            let child = ChildEnvironment::for_agent(NONE, &[""; 0], [(name, value)]);
            assert_eq!(child.get(name).is_some(), expected, "{name}={value}");
            assert_eq!(child.withheld().is_empty(), expected, "{name}={value}");
        }
    }

    #[test]
    fn extras_win_and_what_is_kept_back_is_said() {
        let parent = [
            ("PATH", "/usr/bin"),
            ("OPENAI_API_KEY", KEY),
            ("RELAY_DATA", "/x"),
            ("RELAY_URL", "http://parent"),
        ];
        let child = ChildEnvironment::for_agent(
            parent,
            &["OPENAI_API_KEY", "RELAY_DATA"],
            [("PATH", "/opt/bin"), ("RELAY_URL", "http://child")],
        );
        assert_eq!(names(&child), ["PATH", "RELAY_URL"]);
        assert_eq!(child.get("PATH"), Some(OsStr::new("/opt/bin")));
        assert_eq!(child.get("RELAY_URL"), Some(OsStr::new("http://child")));
        assert_eq!(
            child.withheld(),
            [
                Withheld::Credential("OPENAI_API_KEY".to_owned()),
                Withheld::Own("RELAY_DATA".to_owned()),
            ]
        );
    }
}
