//! Every agent that is installed says who it is and what it can do, and nothing of it is left afterwards.

use std::collections::BTreeMap;

use relay_harness::acp::catalogue::MidTurn;
use relay_harness::acp::host::{HostOptions, probe};
use relay_script::{Script, Server};
use serde_json::Value;

use super::agents::{Agent, GREETING, Place, SecondPrompt, WORKING};
use super::desk::{definition, nothing_left_of, soon};

/// What agents are known to advertise. A new version may change that; then this is what tells us.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "claude",
        &[
            "additionalDirectories",
            "closeSession",
            "forkSession",
            "http",
            "image",
            "listSessions",
            "resumeSession",
            "sse",
            "steering",
        ],
    ),
    (
        "codex",
        &[
            "additionalDirectories",
            "closeSession",
            "forkSession",
            "http",
            "image",
            "listSessions",
            "resumeSession",
            "steering",
        ],
    ),
    (
        "opencode",
        &[
            "closeSession",
            "forkSession",
            "http",
            "image",
            "listSessions",
            "resumeSession",
            "sse",
        ],
    ),
    ("gemini", &["audio", "http", "image", "sse"]),
    ("auggie", &["image", "listSessions"]),
    ("pi", &["image", "listSessions"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_agent_tells_what_it_can_do() {
    let model = Server::start(Script::saying("Fine.")).await.unwrap();
    let installed = WORKING
        .iter()
        .chain(GREETING)
        .filter(|agent| agent.installed());
    for agent in installed {
        let said = look_at(agent, &model.url()).await;
        eprintln!("{}: {said:?}", agent.name);
        if let Some((_, known)) = KNOWN.iter().find(|(name, _)| *name == agent.name) {
            assert_eq!(said, *known, "{}", agent.name);
        }
    }
    assert_eq!(model.requests().len(), 0, "nobody asks a model for that");
}

/// What an agent advertises beyond loading sessions, which all do, and text.
async fn look_at(agent: &Agent, model: &str) -> Vec<String> {
    let place = Place::new();
    let (definition, environment) = definition(agent, &place, model);
    let mid_turn = definition.mid_turn;
    let options = HostOptions::default();
    let found = probe(
        definition,
        environment,
        place.work().to_owned(),
        options,
        false,
    );
    let found = soon("the handshake", found).await.unwrap();
    let handshake = found.handshake;
    assert!(handshake.agent.name.is_some(), "{handshake:?}");
    assert!(handshake.capabilities.load_session, "{handshake:?}");
    assert_eq!(handshake.extensions.steering, agent.steers, "{handshake:?}");
    if WORKING.iter().any(|working| working.name == agent.name) {
        let queues = agent.second_prompt == SecondPrompt::Queued;
        assert_eq!(mid_turn == MidTurn::Queue, queues, "{}", agent.name);
    }
    nothing_left_of(&place);
    let capabilities = serde_json::to_value(&handshake.capabilities).unwrap();
    let mut said = BTreeMap::new();
    flags(&capabilities, &mut said);
    said.insert("steering".to_owned(), handshake.extensions.steering);
    let always = ["loadSession", "stdio", "text", "embeddedContext"];
    let said = said
        .into_iter()
        .filter(|(name, is)| *is && !always.contains(&name.as_str()));
    said.map(|(name, _)| name).collect()
}

fn flags(value: &Value, found: &mut BTreeMap<String, bool>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        match value.as_bool() {
            Some(is) => {
                found.insert(name.clone(), is);
            }
            None => flags(value, found),
        }
    }
}
