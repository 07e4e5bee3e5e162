use std::collections::BTreeSet;

use super::*;

const IDS: [&str; 16] = [
    "claude",
    "codex",
    "codex-zed",
    "gemini",
    "opencode",
    "kilo",
    "qwen",
    "copilot",
    "goose",
    "cline",
    "kimi",
    "hermes",
    "cursor",
    "droid",
    "pi",
    "auggie",
];

fn config(text: &str) -> AgentConfig {
    serde_json::from_str(text).unwrap()
}

fn with(id: &str, text: &str) -> Result<Catalogue, CatalogueError> {
    Catalogue::with_configured([(id.to_owned(), config(text))])
}

#[test]
fn every_known_agent_is_there_and_complete() {
    let catalogue = Catalogue::built_in();
    let ids: Vec<&str> = catalogue
        .agents()
        .iter()
        .map(|agent| agent.id.as_str())
        .collect();
    assert_eq!(ids, IDS);
    for agent in catalogue.agents() {
        let texts = [&agent.title, &agent.command, &agent.install, &agent.sign_in];
        assert!(texts.iter().all(|text| !text.is_empty()), "{}", agent.id);
        assert!(is_id(&agent.id) && agent.built_in);
        let names: BTreeSet<_> = agent.env_names.iter().collect();
        assert_eq!(names.len(), agent.env_names.len(), "{}", agent.id);
        assert!(!agent.env_names.iter().any(|name| name.starts_with("RELAY")));
        let like =
            |other: &&AgentDefinition| other.command == agent.command && other.args == agent.args;
        let alike = catalogue.agents().iter().filter(like).count();
        assert!(alike == 1 || agent.says.is_some(), "{}", agent.id);
    }
}

#[test]
fn keys_are_for_those_who_use_them() {
    let catalogue = Catalogue::built_in();
    let has = |id: &str, name: &str| {
        let agent = catalogue.get(id).unwrap();
        agent.env_names.iter().any(|known| known == name)
    };
    assert!(has("claude", "ANTHROPIC_API_KEY") && !has("claude", "OPENAI_API_KEY"));
    assert!(has("codex", "OPENAI_API_KEY") && !has("codex", "ANTHROPIC_API_KEY"));
    assert!(has("gemini", "GEMINI_API_KEY") && !has("gemini", "OPENAI_API_KEY"));
    assert!(!has("droid", "ANTHROPIC_API_KEY"));
}

#[test]
fn unknown_names_come_with_the_nearest() {
    let error = Catalogue::built_in().get("claud").unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no agent `claud`; did you mean claude?"
    );
}

#[test]
fn a_built_in_agent_is_not_replaced_in_silence() {
    let error = with("claude", r#"{"command": "mine"}"#).unwrap_err();
    assert_eq!(error, CatalogueError::BuiltIn("claude".to_owned()));
    let replaced = with(
        "claude",
        r#"{"command": "mine", "replaces_built_in": true}"#,
    )
    .unwrap();
    let claude = replaced.get("claude").unwrap();
    assert_eq!((claude.command.as_str(), claude.built_in), ("mine", false));
    assert_eq!(replaced.agents().len(), IDS.len());
    let error = with("mine", r#"{"command": "mine", "replaces_built_in": true}"#).unwrap_err();
    assert_eq!(error, CatalogueError::ReplacesNothing("mine".to_owned()));
}

#[test]
fn an_agent_of_the_configuration() {
    let text = r#"{"command": "my-agent", "args": ["--acp"], "env_names": ["MY_KEY"],
        "env": {"A": "1"}, "mid_turn": "cancel-and-prompt", "quirks": {"no_client_files": true}}"#;
    let catalogue = with("mine", text).unwrap();
    let mine = catalogue.get("mine").unwrap();
    assert_eq!(mine.title, "mine");
    assert_eq!(mine.mid_turn, MidTurn::CancelAndPrompt);
    assert!(mine.quirks.no_client_files && !mine.built_in);
    assert_eq!(catalogue.agents().len(), IDS.len() + 1);

    for id in ["", "Mine", "a b", &"a".repeat(65)] {
        let error = with(id, r#"{"command": "x"}"#).unwrap_err();
        assert_eq!(error, CatalogueError::InvalidId(id.to_owned()));
    }
    assert_eq!(
        with("mine", r#"{"command": ""}"#).unwrap_err(),
        CatalogueError::NoCommand("mine".to_owned())
    );
    assert!(serde_json::from_str::<AgentConfig>(r#"{"command": "x", "arg": []}"#).is_err());
}

#[cfg(unix)]
#[test]
fn programs_are_looked_for_in_the_path() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("agent");
    std::fs::write(&program, "").unwrap();
    let path = std::env::join_paths(["/nowhere".as_ref(), folder.path()]).unwrap();
    assert_eq!(locate("agent", &path), None);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(locate("agent", &path).as_ref(), Some(&program));
    assert_eq!(
        locate(program.to_str().unwrap(), "".as_ref()),
        Some(program)
    );
}
