//! The end of credentials. Whoever was let in by one learns of it from the commit, so every token ends through here.

use relay_protocol::ids::TokenId;
use relay_protocol::time::Timestamp;
use rusqlite::{Params, params};

use super::directory::uuid_of;
use super::writer::Tx;
use crate::error::Result;
use crate::store::chain::Hash;
use crate::store::news::{CredentialEnd, News};
use crate::store::records::AgentNo;

impl Tx<'_> {
    /// Deletes the tokens that a condition selects; says which ones those were.
    pub(super) fn delete_tokens(
        &mut self,
        condition: &str,
        params: impl Params + Clone,
    ) -> Result<Vec<TokenId>> {
        let found: Vec<(Hash, TokenId)> = self
            .query(&format!("SELECT hash, id FROM tokens WHERE {condition}"))?
            .query_map(params.clone(), |row| {
                Ok((row.get(0)?, TokenId::from_uuid(uuid_of(row.get(1)?))))
            })?
            .collect::<rusqlite::Result<_>>()?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        self.execute(&format!("DELETE FROM tokens WHERE {condition}"), params)?;
        for (hash, _) in &found {
            self.tell(News::Credential(CredentialEnd {
                hash: *hash,
                valid_until: None,
            }));
        }
        Ok(found.into_iter().map(|(_, id)| id).collect())
    }

    /// Lets the tokens of an agent end at a time, unless they end before.
    pub(super) fn limit_tokens_of(&mut self, agent: AgentNo, until: Timestamp) -> Result<()> {
        const LONGER: &str = "agent = ?1 AND (valid_until IS NULL OR valid_until > ?2)";
        let tokens: Vec<Hash> = self
            .query(&format!("SELECT hash FROM tokens WHERE {LONGER}"))?
            .query_map(params![agent.0, until.as_millis()], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        if tokens.is_empty() {
            return Ok(());
        }
        self.execute(
            &format!("UPDATE tokens SET valid_until = ?2 WHERE {LONGER}"),
            params![agent.0, until.as_millis()],
        )?;
        for hash in tokens {
            self.tell(News::Credential(CredentialEnd {
                hash,
                valid_until: Some(until),
            }));
        }
        Ok(())
    }
}
