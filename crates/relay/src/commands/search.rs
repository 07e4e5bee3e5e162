//! `relay search`: finds messages by their words.

use clap::Args;
use relay_protocol::api::messages::SearchQuery;

use crate::contact::Contact;
use crate::failure::Outcome;
use crate::moment::Moment;
use crate::output::{Output, one_line};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay search changelog
  relay search '\"ship it\" rele*' --channel release --from ada --after 2d

All words must occur; \"two words\" is a phrase, wor* a prefix. Only what you may see is found.";

#[derive(Args)]
pub(crate) struct SearchArguments {
    /// The words
    #[arg(required = true)]
    words: Vec<String>,
    /// Only in this channel
    #[arg(long)]
    channel: Option<String>,
    /// Only by this author
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,
    /// Only after this time, or not longer ago than 2h, 7d
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    after: Option<Moment>,
    /// Only before this time, or longer ago than 2h, 7d
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    before: Option<Moment>,
    /// Most hits
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Where to go on, as the page before said
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(
    arguments: &SearchArguments,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let bare = |name: &Option<String>, sign| {
        let name = name.as_ref();
        name.map(|name| name.trim_start_matches(sign).to_owned())
    };
    let query = SearchQuery {
        q: arguments.words.join(" "),
        channel: bare(&arguments.channel, '#'),
        from: bare(&arguments.from, '@'),
        after: arguments.after.map(Moment::ago),
        before: arguments.before.map(Moment::ago),
        cursor: arguments.cursor.clone(),
        limit: Some(arguments.limit),
    };
    let found = contact.relay.search(&query).await?;
    output.show(&found, |style| {
        let hits = found.items.iter().map(|hit| {
            format!(
                "{}\n  {}",
                words::heading(style, &hit.message),
                one_line(&hit.snippet)
            )
        });
        let mut parts: Vec<String> = hits.collect();
        if parts.is_empty() {
            return "nothing found".to_owned();
        }
        if let Some(cursor) = &found.next_cursor {
            parts.push(style.faint(&format!("more: --cursor {cursor}")));
        }
        parts.join("\n\n")
    })
}
