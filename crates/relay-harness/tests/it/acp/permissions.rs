//! Who is asked, and what the agent is told.

use std::sync::{Arc, Mutex};

use relay_harness::acp::event::{Event, StopReason};
use relay_harness::acp::host::{HostOptions, Session};
use relay_harness::acp::permission::{
    AllowEach, Decides, Deciding, PermissionAnswer, PermissionQuestion, RejectAll,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::support::{all, ask, session_with, soon, text};

/// Hands every question to the test, which answers it when it likes.
struct Person(mpsc::UnboundedSender<(PermissionQuestion, oneshot::Sender<PermissionAnswer>)>);

pub(crate) type Questions =
    mpsc::UnboundedReceiver<(PermissionQuestion, oneshot::Sender<PermissionAnswer>)>;

impl Decides for Person {
    fn decide(&self, question: PermissionQuestion) -> Deciding<'_> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.0.send((question, answer)).unwrap();
            answered.await.unwrap_or(PermissionAnswer::Cancelled)
        })
    }
}

pub(crate) fn person() -> (HostOptions, Questions) {
    let (sender, questions) = mpsc::unbounded_channel();
    (HostOptions::deciding(Person(sender)), questions)
}

fn options() -> Value {
    json!([
        {"optionId": "yes-always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ])
}

fn asking(options: Value) -> Value {
    json!({"turns": [[{"ask": {"options": options}}, {"stop": "end_turn"}]]})
}

async fn outcome(session: &Session) -> Value {
    let (text, end) = soon(ask(session)).await;
    assert_eq!(end, "end_turn");
    serde_json::from_str(text.strip_prefix("outcome ").unwrap()).unwrap()
}

#[tokio::test]
async fn policies_choose_by_what_an_option_does() {
    let reject = || HostOptions::deciding(RejectAll);
    let allow = || HostOptions::deciding(AllowEach);
    let only_yes = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
    let odd = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_galaxy"}, {"kind": "allow_once"}, 7]);
    let selected = |id: &str| json!({"outcome": "selected", "optionId": id});
    let cancelled = json!({"outcome": "cancelled"});
    let table = [
        (reject(), options(), selected("no")),
        (allow(), options(), selected("yes")),
        // A rejection never selects what allows.
        (reject(), only_yes, cancelled.clone()),
        (reject(), odd.clone(), cancelled.clone()),
        (allow(), odd, cancelled.clone()),
        (allow(), Value::Null, cancelled),
    ];
    for (host, options, expected) in table {
        let session = session_with(asking(options), host).await;
        assert_eq!(outcome(&session).await, expected);
    }
}

#[tokio::test]
async fn a_question_has_the_agents_own_options_and_may_wait() {
    let (host, mut questions) = person();
    let call = json!({"toolCallId": "c", "title": "rm -rf build", "kind": "execute", "rawInput": {"command": "rm -rf build"}});
    let script = json!({"turns": [[{"ask": {"options": options(), "toolCall": call}}, {"stop": "end_turn"}]]});
    let session = session_with(script, host).await;
    let turn = session.prompt(["go"]).await.unwrap();
    let (question, answer) = soon(questions.recv()).await.unwrap();
    assert_eq!(
        (question.agent.as_str(), question.session_id.as_str()),
        ("fake", "session-1")
    );
    assert_eq!(question.tool_call.tool(), "execute");
    assert_eq!(
        question.tool_call.input,
        Some(json!({"command": "rm -rf build"}))
    );
    let names: Vec<&str> = question
        .options
        .iter()
        .map(|option| option.name.as_str())
        .collect();
    assert_eq!(names, ["Always", "Yes", "No"]);
    assert_eq!(session.open_questions(), 1);
    assert!(session.is_busy());
    answer
        .send(PermissionAnswer::Option("yes-always".to_owned()))
        .unwrap();
    let events = all(turn).await;
    assert!(text(&events).contains("yes-always"));
    assert!(
        events
            .iter()
            .any(|event| matches!(event.event, Event::PermissionAsked { .. }))
    );
    let answered = Event::PermissionAnswered {
        option_id: Some("yes-always".to_owned()),
    };
    assert!(events.iter().any(|event| event.event == answered));
    assert_eq!(session.open_questions(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_person_does_not_end_a_turn() {
    // Time flies: a day passes before the answer. The agent is in this process, so that only time is pretended.
    let (mine, theirs) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(mine);
    let (host, mut questions) = person();
    tokio::spawn(asking_agent(theirs));
    let agent = super::support::agent(&json!({}));
    let host = relay_harness::acp::host::Host::connect(agent, input, output, host)
        .await
        .unwrap();
    let open = relay_harness::acp::host::OpenSession::new(super::support::folder());
    let session = host.new_session(open).await.unwrap();
    let turn = session.prompt(["go"]).await.unwrap();
    let (_, answer) = questions.recv().await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(24 * 3600)).await;
    answer.send(PermissionAnswer::AllowOnce).unwrap();
    assert_eq!(
        turn.finish().await.unwrap().stop_reason,
        StopReason::Other("yes".to_owned())
    );
}

/// Asks one question per prompt, and ends the turn with the option that was chosen.
async fn asking_agent(stream: tokio::io::DuplexStream) {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let (input, mut output) = tokio::io::split(stream);
    let mut lines = BufReader::new(input).lines();
    let mut prompt = Value::Null;
    while let Some(line) = lines.next_line().await.unwrap() {
        let message: Value = serde_json::from_str(&line).unwrap();
        let answer = match message["method"].as_str() {
            Some("initialize") => json!({"id": message["id"], "result": {"protocolVersion": 1}}),
            Some("session/new") => json!({"id": message["id"], "result": {"sessionId": "s"}}),
            Some("session/prompt") => {
                prompt = message["id"].clone();
                let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options()});
                json!({"id": 7, "method": "session/request_permission", "params": params})
            }
            _ => {
                json!({"id": prompt, "result": {"stopReason": message["result"]["outcome"]["optionId"]}})
            }
        };
        output
            .write_all(format!("{answer}\n").as_bytes())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_cancel_answers_every_open_question() {
    let (host, mut questions) = person();
    let ask_step = json!({"ask": {"options": options()}});
    let script = json!({"turns": [
        // After the cancel the agent asks again: nobody is bothered with that.
        [ask_step, ask_step, {"stop": "end_turn"}],
        [{"text": "next"}, {"stop": "end_turn"}],
    ]});
    let session = session_with(script, host).await;
    let turn = session.prompt(["go"]).await.unwrap();
    let (_, answer) = soon(questions.recv()).await.unwrap();
    turn.cancel();
    let end = soon(turn.finish()).await.unwrap();
    assert_eq!(end.stop_reason, StopReason::Cancelled);
    assert!(answer.is_closed());
    assert!(questions.try_recv().is_err());
    assert_eq!(session.open_questions(), 0);
    assert_eq!(ask(&session).await.0, "next");
}

#[tokio::test]
async fn an_agent_can_take_its_question_back() {
    let (host, mut questions) = person();
    let script = json!({"turns": [[{"askAndTakeBack": options()}, {"stop": "end_turn"}]]});
    let session = session_with(script, host).await;
    assert_eq!(soon(ask(&session)).await.0, "-32800");
    // It may or may not have been seen; but nobody's answer is waited for.
    if let Ok((_, answer)) = questions.try_recv() {
        assert!(answer.is_closed());
    }
    assert_eq!(session.open_questions(), 0);
}

#[tokio::test]
async fn a_question_for_a_session_that_is_not_there_is_cancelled() {
    let (host, mut questions) = person();
    let script = json!({"turns": [[{"ask": {"options": options(), "sessionId": "nobody"}}, {"stop": "end_turn"}]]});
    let session = session_with(script, host).await;
    assert_eq!(outcome(&session).await, json!({"outcome": "cancelled"}));
    assert!(questions.try_recv().is_err());
}

#[tokio::test]
async fn a_question_in_one_session_does_not_hold_up_another() {
    let (host, mut questions) = person();
    let script = json!({"turns": [[{"ask": {"options": options()}}, {"stop": "end_turn"}]]});
    let one = session_with(script, host).await;
    let turn = one.prompt(["go"]).await.unwrap();
    let (_, answer) = soon(questions.recv()).await.unwrap();
    // Cancelling elsewhere does not take the question back.
    let open = relay_harness::acp::host::OpenSession::new(super::support::folder());
    let opening = one.host().new_session(open);
    answer.send(PermissionAnswer::Reject).unwrap();
    let two = soon(opening).await.unwrap();
    two.cancel();
    assert!(text(&all(turn).await).contains("\"no\""));
}

/// Panics when it is asked.
struct Broken(Arc<Mutex<u32>>);

impl Decides for Broken {
    fn decide(&self, _: PermissionQuestion) -> Deciding<'_> {
        *self.0.lock().unwrap() += 1;
        Box::pin(async { panic!("this is part of a test") })
    }
}

#[tokio::test]
async fn whoever_breaks_while_deciding_allows_nothing() {
    let asked = Arc::new(Mutex::new(0));
    let script = json!({"turns": [[{"call": ["session/request_permission", {"toolCall": {"toolCallId": "c"}, "options": options()}]}, {"stop": "end_turn"}]]});
    let session = session_with(script, HostOptions::deciding(Broken(asked.clone()))).await;
    let (said, _) = soon(ask(&session)).await;
    assert!(said.contains("-32603"), "{said}");
    assert_eq!(*asked.lock().unwrap(), 1);
    assert_eq!(session.open_questions(), 0);
}
