//! Serves a script by hand: `relay-script [FILE] [--port N]`.
//!
//! Prints its URL, and then every request: its number, the API, the body. Without a file it plays the scripts in the messages that it
//! gets (`script: …`), and says so otherwise.

use std::process::ExitCode;

use relay_script::{Script, Server};

const USAGE: &str = "usage: relay-script [FILE] [--port N]";

/// What is said without a file.
const HINT: &str =
    "I say what a script tells me. Begin a message with `script:` and a script in JSON.";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("relay-script: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), String> {
    let Some((script, port)) = arguments()? else {
        println!("{USAGE}");
        return Ok(());
    };
    let server = Server::start_at(port, script).await;
    let server = server.map_err(|error| format!("port {port} can't be opened: {error}"))?;
    println!("{}", server.url());
    let mut seen = 0;
    loop {
        tokio::select! {
            recorded = server.first_after(seen, |_| true) => {
                seen = recorded.number;
                println!("{seen} {:?} {}", recorded.api, recorded.body);
            }
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

/// What to play and where; nothing if help is wanted.
fn arguments() -> Result<Option<(Script, u16)>, String> {
    let (mut script, mut port) = (Script::saying(HINT), 0);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok(None),
            option if option.starts_with("--") && option != "--port" => {
                return Err(USAGE.to_owned());
            }
            "--port" => {
                let number = words.next().and_then(|word| word.parse().ok());
                port = number.ok_or("--port wants a number")?;
            }
            file => {
                let text = std::fs::read_to_string(file);
                let text = text.map_err(|error| format!("{file}: {error}"))?;
                script = text.parse().map_err(|error| format!("{file}: {error}"))?;
            }
        }
    }
    Ok(Some((script, port)))
}
