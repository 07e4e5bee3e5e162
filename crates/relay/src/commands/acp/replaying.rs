//! Answers that were recorded, played instead of asking an agent.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use relay_harness::acp::direct::{Answer, Replay, TranscriptError};

use super::telling::Teller;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::one_line;

/// The answer to this prompt.
pub(super) fn answer(file: &Path, prompt: &str) -> Outcome<Answer> {
    let mut replay = read(file)?;
    let mut found = Vec::new();
    while let Some((asked, answer)) = replay.next_answer() {
        if asked.trim() == prompt.trim() {
            return Ok(answer);
        }
        found.push(format!("{:?}", one_line(&asked)));
    }
    let found = match found.is_empty() {
        true => "no answer".to_owned(),
        false => found.join(", "),
    };
    let message = format!(
        "expected the prompt {:?} in {}, found {found}",
        one_line(prompt),
        file.display()
    );
    Err(Failure::new(Exit::NotFound, "not_recorded", message))
}

/// Tells everything that was recorded; the answer to this prompt.
pub(super) fn play(file: &Path, prompt: &str, teller: &mut impl Teller) -> Outcome<Answer> {
    let answer = answer(file, prompt)?;
    let mut replay = read(file)?;
    while let Some(event) = replay.next_event() {
        teller.tell(&event)?;
    }
    Ok(answer)
}

fn read(file: &Path) -> Outcome<Replay> {
    let open = File::open(file).map_err(|error| {
        let message = format!("{} can't be read: {error}", file.display());
        Failure::new(Exit::NotFound, "no_transcript", message)
    })?;
    let named = |error: TranscriptError| {
        Failure::usage(format!("{}: {error}", file.display()))
            .next("it has to be a file that --record has written")
    };
    Replay::read(BufReader::new(open)).map_err(named)
}
