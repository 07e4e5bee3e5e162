//! Tools for chats in tests: what they were called with is written down.

use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_harness::child::ChildEnvironment;
use relay_harness::llm::provider::ToolSpec;
use relay_harness::llm::tools::{
    AgentTool, ReadTool, Sharing, Shell, Tool, ToolContext, ToolOutput, Tools, Workspace,
};
use relay_protocol::permission::ToolParams;
use serde_json::{Value, json};

/// What was run, in order.
#[derive(Clone, Default)]
pub(crate) struct Ran(Arc<Mutex<Vec<ToolParams>>>);

impl Ran {
    fn note(&self, params: &ToolParams) {
        self.0.lock().unwrap().push(params.clone());
    }

    /// All of them.
    pub(crate) fn calls(&self) -> Vec<ToolParams> {
        self.0.lock().unwrap().clone()
    }

    /// Their commands.
    pub(crate) fn commands(&self) -> Vec<String> {
        let command = |params: &ToolParams| params["command"].as_str().unwrap().to_owned();
        self.calls().iter().map(command).collect()
    }
}

/// `bash` and `echo`, which only write down what they are called with; `breaks` and `panics`; the real `read` and `agent`.
pub(crate) fn recording(ran: &Ran, directory: &Path) -> Tools {
    let note = |name: &'static str, ending| Noted {
        name,
        ending,
        ran: ran.clone(),
    };
    let workspace = Arc::new(Workspace::open(directory, Vec::new()).unwrap());
    Tools::default()
        .with(note("bash", Ending::Well))
        .with(note("echo", Ending::Well))
        .with(note("breaks", Ending::Error))
        .with(note("panics", Ending::Panic))
        .with(ReadTool::new(workspace))
        .with(AgentTool)
}

/// The tools that a user has.
pub(crate) fn real(directory: &Path) -> Tools {
    let workspace = Arc::new(Workspace::open(directory, Vec::new()).unwrap());
    let shell = Shell {
        cwd: directory.to_owned(),
        environment: ChildEnvironment::for_agent(std::env::vars_os(), &[""; 0], [("", ""); 0]),
    };
    Tools::standard(&workspace, shell)
}

#[derive(Clone, Copy)]
enum Ending {
    Well,
    Error,
    Panic,
}

struct Noted {
    name: &'static str,
    ending: Ending,
    ran: Ran,
}

impl Tool for Noted {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_owned(),
            description: String::new(),
            schema: json!({ "type": "object" }),
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::Exclusive
    }

    fn check(&self, _params: &ToolParams) -> Result<(), String> {
        Ok(())
    }

    fn run(
        &self,
        params: ToolParams,
        _context: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, String>> {
        async move {
            self.ran.note(&params);
            match self.ending {
                Ending::Well => Ok(ToolOutput {
                    context: Value::Object(params.clone()).to_string(),
                    result: json!({ "exitCode": 0 }),
                }),
                Ending::Error => Err("it broke".to_owned()),
                Ending::Panic => panic!("it fell over"),
            }
        }
        .boxed()
    }
}
