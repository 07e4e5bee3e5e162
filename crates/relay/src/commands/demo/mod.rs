//! `relay demo`: three agents that are played talk for a minute, on a real server, and all of it is explained.

mod cast;
mod narrator;
mod play;
mod scenes;

use clap::Args;

use self::cast::Cast;
use self::narrator::{Narrator, Pace, Told};
use self::play::Play;
use crate::contact::{Actor, Contact, GlobalArguments};
use crate::failure::{Failure, Outcome};
use crate::hints;
use crate::output::Output;
use crate::platform::StopSignal;
use crate::throwaway::{Stage, tour};

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay demo                     about a minute, on a server of its own; your data stays as it is
  relay demo --here              on the running server; `relay listen` beside it shows the events
  relay demo --fast              without the pauses
  relay demo --fast --json       each step as a line of JSON

Ctrl-C ends it, and the agents are gone. With --here what was said stays in the log.";

#[derive(Args)]
pub(crate) struct DemoArguments {
    /// Use the running server and its workspace, not one in a temporary directory
    #[arg(long)]
    here: bool,
    /// Leave out the pauses
    #[arg(long)]
    fast: bool,
}

pub(crate) fn run(
    arguments: &DemoArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    tour(perform(arguments, globals, output))
}

async fn perform(arguments: &DemoArguments, globals: &GlobalArguments, output: &Output) -> Outcome {
    let stop = StopSignal::listen()?;
    // Outside of what may be broken off, so that it can be cleared away then, too.
    let mut stage = match arguments.here {
        true => running(globals).await?,
        false => Stage::own("demo").await?,
    };
    let pace = match arguments.fast {
        true => Pace::Fast,
        false => Pace::Readable,
    };
    let narrator = Narrator::new(output, pace);
    let played = tokio::select! {
        played = play(&mut stage, &narrator) => played,
        () = stop.come() => Err(Failure::interrupted("stopped; nothing of the demo is left behind")),
    };
    let left = stage.clear().await;
    if let Some(first) = left.first() {
        output.note(&format!(
            "{} could not be released: {}",
            left.join(", "),
            hints::command(&format!("agent release {first}"))
        ));
    }
    played
}

/// The server that runs, if it answers.
async fn running(globals: &GlobalArguments) -> Outcome<Stage> {
    let contact = Contact::find(globals, Actor::Workspace).await?;
    let asked = contact.relay.workspace().await;
    asked.map_err(|error| contact.explain(error.into()))?;
    Stage::on(contact.url(), contact.token())
}

async fn play(stage: &mut Stage, narrator: &Narrator<'_>) -> Outcome {
    introduce(stage, narrator).await?;
    let cast = Cast::assemble(stage).await?;
    cast.introduce(narrator).await?;
    let mut play = Play::begin(stage, cast, narrator).await?;
    scenes::all(&mut play).await?;
    play.explain().await
}

async fn introduce(stage: &Stage, narrator: &Narrator<'_>) -> Outcome {
    let own = stage.own_data();
    narrator
        .tell(&Told::Begin {
            url: stage.url(),
            data: own,
        })
        .await?;
    let watch = match own {
        Some(data) => {
            narrator
                .say("This server is only for the demo: its data is gone when it ends.")
                .await?;
            hints::command_over(data, "listen")
        }
        None => hints::command("listen"),
    };
    narrator
        .hint("Watch every event in another terminal:", &watch)
        .await
}
