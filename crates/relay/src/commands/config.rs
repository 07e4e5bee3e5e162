//! `relay config show`: every setting, its value, and where that came from.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::serve::{self, StartArguments};
use crate::config::Layers;
use crate::contact::GlobalArguments;
use crate::data::DataDirectory;
use crate::failure::Outcome;
use crate::models::missing_keys;
use crate::output::{Output, Table};

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting with its value and where that came from
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArguments),
}

const SHOW_EXAMPLES: &str = "\
Examples:
  relay config show
  RELAY_SERVER_LISTEN=127.0.0.1:5000 relay config show --config ./relay.toml";

#[derive(Args)]
pub(crate) struct ShowArguments {
    #[command(flatten)]
    start: StartArguments,
}

#[derive(Serialize)]
struct Shown {
    items: Vec<Setting>,
    /// What a server would start without.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Setting {
    setting: String,
    value: toml::Value,
    from: String,
}

pub(crate) fn run(command: &ConfigCommand, globals: &GlobalArguments, output: &Output) -> Outcome {
    let ConfigCommand::Show(arguments) = command;
    let data = DataDirectory::locate(globals.data.as_deref())?;
    let layers = serve::layered(Layers::defaults()?, &arguments.start, &data)?;
    let mut items = vec![Setting {
        setting: "data".to_owned(),
        value: toml::Value::String(data.path().display().to_string()),
        from: data_origin(globals),
    }];
    items.extend(
        layers
            .listed()
            .into_iter()
            .map(|(setting, value, origin)| Setting {
                setting,
                value,
                from: origin.to_string(),
            }),
    );
    // What a server would refuse is not shown as if it could be used.
    let (settings, _) = layers.finish()?;
    let warnings = missing_keys(&settings.providers, |name| std::env::var(name).ok());
    for warning in &warnings {
        output.note(&format!("warning: {warning}"));
    }
    let shown = Shown { items, warnings };
    output.show(&shown, |style| {
        let mut table = Table::new(&["setting", "value", "from"]);
        for item in &shown.items {
            let from = match item.from.as_str() {
                "default" => style.faint("default"),
                from => from.to_owned(),
            };
            table.row([item.setting.clone(), item.value.to_string(), from]);
        }
        table.text(style, "")
    })
}

fn data_origin(globals: &GlobalArguments) -> String {
    let variable = std::env::var_os("RELAY_DATA");
    let origin = match &globals.data {
        None => "default",
        Some(data) if variable.as_deref() == Some(data.as_os_str()) => "RELAY_DATA",
        Some(_) => "--data",
    };
    origin.to_owned()
}
