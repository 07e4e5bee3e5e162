//! Every agent that is installed says who it is and what it can do.

use relay_script::{Script, Server};
use serde_json::{Value, json};

use crate::support::acp::Client;
use crate::support::agents::{GREETING, Place, WORKING};

/// What this client is to an agent.
pub(crate) fn introduction() -> Value {
    json!({
        "protocolVersion": 1,
        "clientInfo": { "name": "relay-script", "version": env!("CARGO_PKG_VERSION") },
        "clientCapabilities": {
            "fs": { "readTextFile": false, "writeTextFile": false },
            "terminal": false,
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_agent_answers_the_first_question_with_its_capabilities() {
    let model = Server::start(Script::saying("Fine.")).await.unwrap();
    for agent in WORKING.iter().chain(GREETING) {
        if !agent.installed() {
            continue;
        }
        let place = Place::new();
        let mut client: Client = agent.start(&place, &model.url());
        let begun = std::time::Instant::now();
        let answer = client.call("initialize", introduction()).await.unwrap();
        eprintln!("{}: {:?}: {answer}", agent.name, begun.elapsed());
        assert_eq!(answer["protocolVersion"], 1, "{answer}");
        assert_eq!(answer["agentCapabilities"]["loadSession"], true, "{answer}");
        assert!(answer["agentInfo"]["name"].is_string(), "{answer}");
    }
    assert_eq!(model.requests().len(), 0, "nobody asks a model for that");
}
