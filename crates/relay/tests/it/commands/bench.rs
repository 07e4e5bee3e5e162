//! `relay bench`: what it prints. What it measures has its own tests.

use serde_json::Value;

use crate::support::{Setup, finish};

#[tokio::test]
async fn it_measures_a_part_and_says_so() {
    let setup = Setup::new();
    // Of no use to the server that is measured.
    let done = finish(
        setup
            .relay()
            .env("RELAY_SERVER_CONNECTIONS", "1")
            .args(["bench", "search", "--quick", "--rounds", "1"]),
    )
    .await;
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        done.out.contains("cores, shared by server and load"),
        "{done:?}"
    );
    assert!(
        done.out.contains("| indexed by the next search |"),
        "{done:?}"
    );
    assert_eq!(done.err, "measuring search (1 of 1)\n");
}

#[tokio::test]
async fn programs_get_json() {
    let setup = Setup::new();
    let arguments = ["bench", "latency", "--quick", "--rounds", "1", "--json"];
    let done = finish(setup.relay().args(arguments)).await;
    assert_eq!(done.code, 0, "{done:?}");
    let report: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(report["sections"][0]["part"], "latency");
}

#[tokio::test]
async fn a_part_that_does_not_exist_is_refused_with_those_that_do() {
    let setup = Setup::new();
    let done = finish(setup.relay().args(["bench", "sends"])).await;
    assert_eq!(done.code, 2, "{done:?}");
    assert!(
        done.err.contains("there are send, search, pipelined"),
        "{done:?}"
    );
}
