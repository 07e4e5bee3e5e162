//! Tokens that announce themselves with a prefix: one row each.

use crate::redact::{
    limits::MAX_SECRET,
    rules::{BY_LOOK, Secret},
    shape,
    text::Text,
};

/// A token known by its prefix and by what follows.
#[derive(Debug)]
pub(in crate::redact) struct Token {
    /// How it starts, in the right case.
    pub(super) prefix: &'static str,
    kind: &'static str,
    body: Body,
    shortest: usize,
}

/// What a token consists of after its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Letters and digits.
    Alnum,
    /// Capitals and digits.
    Upper,
    /// Hexadecimal digits.
    Hex,
    /// Letters, digits, `_` and `-`.
    Url64,
    /// The same, but not if it reads as words.
    Unwordy,
    /// The same and dots.
    Dotted,
    /// Letters, digits, `+`, `/`, `=`, `_` and `-`.
    Base64,
    /// Slack: letters, digits, `-` and `%`, after one letter that says which.
    Slack,
}

impl Token {
    /// What to look for: the prefix, if it is too short with what may follow.
    pub(super) fn literals(&self) -> Vec<String> {
        if self.prefix.len() > 2 {
            return vec![self.prefix.to_owned()];
        }
        let next = (b'0'..=b'z').filter(|&byte| self.body.has(byte));
        next.map(|byte| format!("{}{}", self.prefix, char::from(byte)))
            .collect()
    }

    /// Finds the token whose prefix stands at `at`.
    pub(super) fn check(&self, text: &Text<'_>, at: usize) -> Option<Secret> {
        let in_name = self.body == Body::Unwordy && text.byte_before(at) == Some(b'_');
        if in_name || !text.word_may_start(at) {
            return None;
        }
        let body = at + self.prefix.len();
        let end = text.run(body, MAX_SECRET, |byte| self.body.has(byte));
        let length = end - body;
        if length < self.shortest || !self.fits(text.slice(body, end)) {
            return None;
        }
        Some(Secret {
            start: at,
            end,
            kind: self.kind,
            rank: BY_LOOK + self.prefix.len(),
        })
    }

    fn fits(&self, body: &str) -> bool {
        match self.body {
            Body::Unwordy => !shape::is_wordy(body) && !shape::is_template(body),
            Body::Slack => body.starts_with(['a', 'b', 'c', 'd', 'e', 'o', 'p', 'r', 's']),
            _ => true,
        }
    }
}

impl Body {
    fn has(self, byte: u8) -> bool {
        let url64 = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Url64 | Self::Unwordy => url64,
            Self::Dotted => url64 || byte == b'.',
            Self::Base64 => url64 || matches!(byte, b'+' | b'/' | b'='),
            Self::Slack => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'%'),
        }
    }
}

const fn at_least(prefix: &'static str, kind: &'static str, body: Body, shortest: usize) -> Token {
    Token {
        prefix,
        kind,
        body,
        shortest,
    }
}

/// Every token with a prefix.
pub(super) static TOKENS: &[Token] = &[
    // Relay's own credentials: 32 random bytes in base64url.
    at_least("ak_", "relay-credential", Body::Unwordy, 43),
    at_least("rk_", "relay-credential", Body::Unwordy, 43),
    at_least("at_", "relay-credential", Body::Unwordy, 43),
    at_least("ot_", "relay-credential", Body::Unwordy, 43),
    at_least("wh_", "relay-credential", Body::Unwordy, 43),
    // Model providers
    at_least("sk-", "openai-key", Body::Unwordy, 20),
    at_least("sk-proj-", "openai-key", Body::Url64, 20),
    at_least("sk-svcacct-", "openai-key", Body::Url64, 20),
    at_least("sk-admin-", "openai-key", Body::Url64, 20),
    at_least("sess-", "openai-key", Body::Alnum, 40),
    at_least("sk-ant-", "anthropic-key", Body::Url64, 20),
    at_least("sk-or-v1-", "openrouter-key", Body::Alnum, 32),
    at_least("hf_", "huggingface-token", Body::Alnum, 30),
    at_least("api_org_", "huggingface-token", Body::Alnum, 30),
    at_least("gsk_", "groq-key", Body::Alnum, 40),
    at_least("xai-", "xai-key", Body::Alnum, 60),
    at_least("pplx-", "perplexity-key", Body::Alnum, 32),
    at_least("r8_", "replicate-token", Body::Alnum, 36),
    at_least("lsv2_pt_", "langsmith-key", Body::Url64, 32),
    at_least("lsv2_sk_", "langsmith-key", Body::Url64, 32),
    // Code hosting
    at_least("ghp_", "github-token", Body::Alnum, 30),
    at_least("gho_", "github-token", Body::Alnum, 30),
    at_least("ghu_", "github-token", Body::Alnum, 30),
    at_least("ghs_", "github-token", Body::Dotted, 30),
    at_least("ghr_", "github-token", Body::Alnum, 30),
    at_least("github_pat_", "github-token", Body::Url64, 40),
    at_least("glpat-", "gitlab-token", Body::Dotted, 20),
    at_least("gldt-", "gitlab-token", Body::Url64, 20),
    at_least("glrt-", "gitlab-token", Body::Dotted, 20),
    at_least("glcbt-", "gitlab-token", Body::Url64, 20),
    at_least("glptt-", "gitlab-token", Body::Url64, 40),
    at_least("glsoat-", "gitlab-token", Body::Url64, 20),
    at_least("gloas-", "gitlab-token", Body::Url64, 40),
    at_least("glagent-", "gitlab-token", Body::Url64, 40),
    at_least("ATATT3", "atlassian-token", Body::Base64, 60),
    at_least("ATBB", "bitbucket-token", Body::Alnum, 32),
    // Package registries
    at_least("npm_", "npm-token", Body::Alnum, 36),
    at_least("pypi-", "pypi-token", Body::Url64, 50),
    at_least("rubygems_", "rubygems-token", Body::Hex, 48),
    at_least("dckr_pat_", "docker-token", Body::Url64, 24),
    at_least("dckr_oat_", "docker-token", Body::Url64, 24),
    // Chat and mail
    at_least("xox", "slack-token", Body::Slack, 12),
    at_least("xapp-", "slack-token", Body::Url64, 20),
    at_least("SG.", "sendgrid-key", Body::Dotted, 60),
    at_least("key-", "mailgun-key", Body::Hex, 32),
    // Clouds
    at_least("SK", "twilio-key", Body::Hex, 32),
    at_least("AIza", "google-api-key", Body::Url64, 35),
    at_least("ya29.", "google-token", Body::Dotted, 20),
    at_least("GOCSPX-", "google-client-secret", Body::Url64, 24),
    at_least("dop_v1_", "digitalocean-token", Body::Hex, 40),
    at_least("doo_v1_", "digitalocean-token", Body::Hex, 40),
    at_least("dor_v1_", "digitalocean-token", Body::Hex, 40),
    at_least("dapi", "databricks-token", Body::Hex, 32),
    at_least("hvs.", "vault-token", Body::Url64, 24),
    at_least("hvb.", "vault-token", Body::Url64, 24),
    at_least("HRKU-", "heroku-key", Body::Url64, 30),
    at_least("nfp_", "netlify-token", Body::Alnum, 36),
    at_least("sbp_", "supabase-key", Body::Hex, 40),
    at_least("sb_secret_", "supabase-key", Body::Url64, 20),
    at_least("pscale_tkn_", "planetscale-token", Body::Url64, 32),
    at_least("pscale_pw_", "planetscale-token", Body::Url64, 32),
    at_least("tskey-", "tailscale-key", Body::Url64, 20),
    at_least("pul-", "pulumi-token", Body::Hex, 40),
    at_least("dp.pt.", "doppler-token", Body::Alnum, 40),
    at_least("dp.st.", "doppler-token", Body::Dotted, 40),
    at_least("fo1_", "fly-token", Body::Url64, 40),
    // Money
    at_least("sk_live_", "stripe-key", Body::Alnum, 16),
    at_least("sk_test_", "stripe-key", Body::Alnum, 16),
    at_least("rk_live_", "stripe-key", Body::Alnum, 16),
    at_least("rk_test_", "stripe-key", Body::Alnum, 16),
    at_least("whsec_", "webhook-secret", Body::Base64, 24),
    at_least("shpat_", "shopify-token", Body::Hex, 32),
    at_least("shpca_", "shopify-token", Body::Hex, 32),
    at_least("shppa_", "shopify-token", Body::Hex, 32),
    at_least("shpss_", "shopify-token", Body::Hex, 32),
    at_least("sq0atp-", "square-token", Body::Url64, 22),
    at_least("sq0csp-", "square-token", Body::Url64, 40),
    // Work and observation
    at_least("lin_api_", "linear-key", Body::Alnum, 32),
    at_least("lin_oauth_", "linear-key", Body::Alnum, 32),
    at_least("ntn_", "notion-token", Body::Alnum, 40),
    at_least("figd_", "figma-token", Body::Url64, 36),
    at_least("PMAK-", "postman-key", Body::Url64, 50),
    at_least("glsa_", "grafana-token", Body::Url64, 40),
    at_least("glc_", "grafana-token", Body::Base64, 40),
    at_least("NRAK-", "newrelic-key", Body::Upper, 27),
    at_least("sntrys_", "sentry-token", Body::Base64, 60),
    at_least("sntryu_", "sentry-token", Body::Hex, 60),
    // Encryption
    at_least("AGE-SECRET-KEY-", "age-key", Body::Upper, 50),
];
