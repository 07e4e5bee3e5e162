//! The agents that come with Relay: a table of what was found out by running them.

use super::{AgentDefinition, MidTurn, Quirks};

/// One agent. Most of its columns are empty for most agents.
pub(super) struct Row {
    id: &'static str,
    title: &'static str,
    command: &'static str,
    args: &'static [&'static str],
    env_names: &'static [&'static [&'static str]],
    env: &'static [(&'static str, &'static str)],
    says: Option<&'static str>,
    install: &'static str,
    sign_in: &'static str,
    asking_mode: Option<&'static str>,
    quirks: Quirks,
    mid_turn: MidTurn,
}

const QUIET: Quirks = Quirks {
    no_client_files: false,
    stays_after_eof: false,
    leaves_processes: false,
    reject_ends_turn: false,
    notices_in_text: false,
    mcp_unasked: false,
};

const PLAIN: Row = Row {
    id: "",
    title: "",
    command: "",
    args: &[],
    env_names: &[],
    env: &[],
    says: None,
    install: "",
    sign_in: "",
    asking_mode: None,
    quirks: QUIET,
    mid_turn: MidTurn::None,
};

const ANTHROPIC: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
];
const OPENAI: &[&str] = &[
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_MODEL",
    "OPENAI_ORG_ID",
];
const GOOGLE: &[&str] = &[
    "GEMINI_API_KEY",
    "GEMINI_MODEL",
    "GOOGLE_API_KEY",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GEMINI_BASE_URL",
];
const AWS: &[&str] = &[
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];
const ROUTERS: &[&str] = &[
    "OPENROUTER_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
];
const GITHUB: &[&str] = &["GH_TOKEN", "GITHUB_TOKEN", "COPILOT_GITHUB_TOKEN"];

pub(super) const ROWS: &[Row] = &[
    Row {
        id: "claude",
        title: "Claude Code",
        command: "claude-agent-acp",
        env_names: &[
            ANTHROPIC,
            AWS,
            &[
                "CLAUDE_CONFIG_DIR",
                "CLAUDE_CODE_OAUTH_TOKEN",
                "CLAUDE_CODE_USE_BEDROCK",
                "CLAUDE_CODE_USE_VERTEX",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
                "ENABLE_TOOL_SEARCH",
            ],
        ],
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
        sign_in: "run `claude /login`, or set ANTHROPIC_API_KEY",
        quirks: Quirks {
            leaves_processes: true,
            ..QUIET
        },
        mid_turn: MidTurn::Queue,
        ..PLAIN
    },
    Row {
        id: "codex",
        title: "Codex",
        command: "codex-acp",
        env_names: &[OPENAI, &["CODEX_API_KEY", "CODEX_HOME"]],
        says: Some("@agentclientprotocol/codex-acp"),
        install: "npm install -g @agentclientprotocol/codex-acp",
        sign_in: "run `codex login`, or set OPENAI_API_KEY",
        asking_mode: Some("read-only"),
        quirks: Quirks {
            stays_after_eof: true,
            leaves_processes: true,
            reject_ends_turn: true,
            notices_in_text: true,
            ..QUIET
        },
        mid_turn: MidTurn::Queue,
        ..PLAIN
    },
    Row {
        id: "codex-zed",
        title: "Codex (Zed's adapter)",
        command: "codex-acp",
        env_names: &[OPENAI, &["CODEX_API_KEY", "CODEX_HOME"]],
        says: Some("codex-acp"),
        install: "npm install -g @zed-industries/codex-acp",
        sign_in: "run `codex login`, or set CODEX_API_KEY or OPENAI_API_KEY",
        quirks: Quirks {
            stays_after_eof: true,
            reject_ends_turn: true,
            ..QUIET
        },
        // A second prompt is taken, but never answered.
        mid_turn: MidTurn::CancelAndPrompt,
        ..PLAIN
    },
    Row {
        id: "gemini",
        title: "Gemini CLI",
        command: "gemini",
        args: &["--acp"],
        env_names: &[GOOGLE],
        install: "npm install -g @google/gemini-cli",
        sign_in: "run `gemini` once and sign in, or set GEMINI_API_KEY",
        quirks: Quirks {
            no_client_files: true,
            ..QUIET
        },
        mid_turn: MidTurn::CancelAndPrompt,
        ..PLAIN
    },
    Row {
        id: "opencode",
        title: "OpenCode",
        command: "opencode",
        args: &["acp"],
        env_names: &[
            ANTHROPIC,
            OPENAI,
            GOOGLE,
            AWS,
            ROUTERS,
            &[
                "OPENCODE_API_KEY",
                "OPENCODE_CONFIG",
                "OPENCODE_CONFIG_DIR",
                "OPENCODE_DISABLE_MODELS_FETCH",
            ],
        ],
        install: "npm install -g opencode-ai",
        sign_in: "run `opencode auth login`",
        quirks: Quirks {
            mcp_unasked: true,
            ..QUIET
        },
        mid_turn: MidTurn::Queue,
        ..PLAIN
    },
    Row {
        id: "kilo",
        title: "Kilo Code",
        command: "kilo",
        args: &["acp"],
        env_names: &[
            ANTHROPIC,
            OPENAI,
            GOOGLE,
            ROUTERS,
            &["KILO_API_KEY", "KILO_CONFIG"],
        ],
        install: "npm install -g @kilocode/cli",
        sign_in: "run `kilo auth login`",
        quirks: Quirks {
            mcp_unasked: true,
            ..QUIET
        },
        mid_turn: MidTurn::Queue,
        ..PLAIN
    },
    Row {
        id: "qwen",
        title: "Qwen Code",
        command: "qwen",
        args: &["--acp"],
        env_names: &[OPENAI, &["DASHSCOPE_API_KEY", "QWEN_HOME"]],
        install: "npm install -g @qwen-code/qwen-code",
        sign_in: "run `qwen` once and sign in, or set OPENAI_API_KEY and OPENAI_BASE_URL",
        asking_mode: Some("default"),
        quirks: Quirks {
            leaves_processes: true,
            ..QUIET
        },
        // A second prompt makes the first turn fail.
        mid_turn: MidTurn::CancelAndPrompt,
        ..PLAIN
    },
    Row {
        id: "copilot",
        title: "GitHub Copilot CLI",
        command: "copilot",
        args: &["--acp"],
        env_names: &[
            GITHUB,
            &["COPILOT_MODEL", "COPILOT_HOME", "COPILOT_OFFLINE"],
        ],
        install: "npm install -g @github/copilot",
        sign_in: "run `copilot` and `/login`, or set GH_TOKEN",
        mid_turn: MidTurn::CancelAndPrompt,
        ..PLAIN
    },
    Row {
        id: "goose",
        title: "Goose",
        command: "goose",
        args: &["acp"],
        env_names: &[
            ANTHROPIC,
            OPENAI,
            GOOGLE,
            ROUTERS,
            &[
                "GOOSE_PROVIDER",
                "GOOSE_MODEL",
                "GOOSE_MODE",
                "OPENAI_HOST",
                "GOOSE_DISABLE_KEYRING",
            ],
        ],
        install: "brew install block-goose-cli, or see https://block.github.io/goose",
        sign_in: "run `goose configure`",
        // A second prompt is refused.
        mid_turn: MidTurn::CancelAndPrompt,
        ..PLAIN
    },
    Row {
        id: "cline",
        title: "Cline",
        command: "cline",
        args: &["--acp"],
        env_names: &[ANTHROPIC, OPENAI, ROUTERS, &["CLINE_API_KEY", "CLINE_DIR"]],
        install: "npm install -g cline",
        sign_in: "run `cline auth`",
        quirks: Quirks {
            leaves_processes: true,
            ..QUIET
        },
        // A second prompt is answered at once, and lost.
        mid_turn: MidTurn::CancelAndPrompt,
        ..PLAIN
    },
    Row {
        id: "kimi",
        title: "Kimi Code",
        command: "kimi",
        args: &["acp"],
        env_names: &[&[
            "KIMI_API_KEY",
            "KIMI_BASE_URL",
            "KIMI_MODEL_NAME",
            "MOONSHOT_API_KEY",
            "KIMI_CODE_HOME",
        ]],
        install: "npm install -g @moonshot-ai/kimi-code",
        sign_in: "run `kimi login`",
        // A second prompt is refused.
        mid_turn: MidTurn::CancelAndPrompt,
        ..PLAIN
    },
    Row {
        id: "hermes",
        title: "Hermes Agent",
        command: "hermes",
        args: &["acp"],
        env_names: &[ANTHROPIC, OPENAI, ROUTERS, &["HERMES_HOME"]],
        install: "pip install 'hermes-agent[acp]'",
        sign_in: "run `hermes setup`",
        ..PLAIN
    },
    Row {
        id: "cursor",
        title: "Cursor",
        command: "cursor-agent",
        args: &["acp"],
        env_names: &[&["CURSOR_API_KEY"]],
        install: "see https://cursor.com/cli",
        sign_in: "run `cursor-agent login`, or set CURSOR_API_KEY",
        ..PLAIN
    },
    Row {
        id: "droid",
        title: "Factory Droid",
        command: "droid",
        args: &["exec", "--output-format", "acp"],
        env_names: &[&["FACTORY_API_KEY"]],
        install: "npm install -g droid",
        sign_in: "run `droid` and sign in, or set FACTORY_API_KEY",
        ..PLAIN
    },
    Row {
        id: "pi",
        title: "Pi",
        command: "pi-acp",
        env_names: &[ANTHROPIC, OPENAI, GOOGLE, ROUTERS, &["PI_CODING_AGENT_DIR"]],
        install: "npm install -g pi-acp @mariozechner/pi-coding-agent",
        sign_in: "run `pi` and `/login`",
        ..PLAIN
    },
    Row {
        id: "auggie",
        title: "Auggie",
        command: "auggie",
        args: &["--acp"],
        env_names: &[&[
            "AUGMENT_SESSION_AUTH",
            "AUGMENT_API_TOKEN",
            "AUGMENT_API_URL",
        ]],
        // The search for a newer version can hold up the handshake.
        env: &[("AUGMENT_DISABLE_AUTO_UPDATE", "1")],
        install: "npm install -g @augmentcode/auggie",
        sign_in: "run `auggie login`",
        ..PLAIN
    },
];

impl Row {
    pub(super) fn definition(&self) -> AgentDefinition {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let env = self.env.iter();
        AgentDefinition {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            command: self.command.to_owned(),
            args: owned(self.args),
            env_names: owned(&self.env_names.concat()),
            env: env
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            says: self.says.map(str::to_owned),
            install: self.install.to_owned(),
            sign_in: self.sign_in.to_owned(),
            asking_mode: self.asking_mode.map(str::to_owned),
            quirks: self.quirks,
            mid_turn: self.mid_turn,
            built_in: true,
        }
    }
}
