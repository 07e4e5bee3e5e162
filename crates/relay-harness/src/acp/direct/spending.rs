//! What a conversation costs. Agents tell the cost of a session so far, so only what it grew by is added.

use std::collections::HashMap;

use serde::Serialize;

use super::DirectError;
use crate::acp::event::{Tokens, Usage};

/// What may be spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Most US dollars.
    pub cost_usd: Option<f64>,
    /// Most tokens.
    pub tokens: Option<u64>,
}

/// What was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    /// US dollars, as far as agents tell.
    pub cost_usd: f64,
    /// Tokens that were read, as far as agents tell.
    pub input_tokens: u64,
    /// Tokens that were written, as far as agents tell.
    pub output_tokens: u64,
    /// All tokens, as the agents count them.
    pub total_tokens: u64,
    /// Turns that were answered.
    pub turns: u64,
}

/// Counts what is spent, over all sessions of a conversation.
#[derive(Clone, Debug, Default)]
pub struct Spending {
    spent: Spent,
    /// The last cost that each session told.
    told: HashMap<String, f64>,
    tells_cost: bool,
    tells_tokens: bool,
}

impl Spending {
    /// What was spent so far.
    #[must_use]
    pub const fn spent(&self) -> Spent {
        self.spent
    }

    /// Takes a report of a session: cumulative figures.
    pub fn report(&mut self, session: &str, usage: &Usage) {
        let Some(cost) = usage
            .cost_usd
            .filter(|cost| cost.is_finite() && *cost >= 0.0)
        else {
            return;
        };
        self.tells_cost = true;
        let last = self.told.insert(session.to_owned(), cost).unwrap_or(0.0);
        // A figure that fell begins anew: the agent has lost its count.
        let grown = if cost >= last { cost - last } else { cost };
        self.spent.cost_usd += grown;
    }

    /// Takes the end of a turn, with the tokens that it took.
    pub fn turn(&mut self, tokens: Option<Tokens>) {
        self.spent.turns += 1;
        if let Some(tokens) = tokens {
            self.tells_tokens = true;
            let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
            add(&mut self.spent.input_tokens, tokens.input);
            add(&mut self.spent.output_tokens, tokens.output);
            add(&mut self.spent.total_tokens, tokens.total);
        }
    }

    /// Refuses to go on when the budget is spent.
    pub fn check(&self, budget: Budget) -> Result<(), DirectError> {
        if let Some(limit) = budget.cost_usd
            && self.spent.cost_usd >= limit
        {
            return Err(DirectError::Budget {
                spent: format!("{:.4} USD", self.spent.cost_usd),
                limit: format!("{limit:.4} USD"),
            });
        }
        if let Some(limit) = budget.tokens
            && self.spent.total_tokens >= limit
        {
            return Err(DirectError::Budget {
                spent: format!("{} tokens", self.spent.total_tokens),
                limit: format!("{limit} tokens"),
            });
        }
        Ok(())
    }

    /// Why a budget can't be kept, after a turn in which the agent told nothing of what it is about.
    #[must_use]
    pub fn blind(&self, budget: Budget) -> Option<&'static str> {
        if self.spent.turns == 0 {
            return None;
        }
        match budget {
            Budget {
                cost_usd: Some(_), ..
            } if !self.tells_cost => Some("cost"),
            Budget {
                tokens: Some(_), ..
            } if !self.tells_tokens => Some("tokens"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(cost: f64) -> Usage {
        Usage {
            cost_usd: Some(cost),
            ..Usage::default()
        }
    }

    fn nearly(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn cumulative_figures_are_not_added_up() {
        let mut spending = Spending::default();
        for told in [0.1, 0.2, 0.2, 0.3] {
            spending.report("a", &cost(told));
        }
        assert!(nearly(spending.spent().cost_usd, 0.3));
        spending.report("a", &Usage::default());
        spending.report("b", &cost(0.5));
        assert!(nearly(spending.spent().cost_usd, 0.8));
        // Begins anew.
        spending.report("a", &cost(0.1));
        assert!(nearly(spending.spent().cost_usd, 0.9));
        spending.report("a", &cost(f64::NAN));
        spending.report("a", &cost(-1.0));
        assert!(nearly(spending.spent().cost_usd, 0.9));
        assert_eq!(spending.spent().turns, 0);
    }

    #[test]
    fn turns_are_counted_by_their_ends() {
        let mut spending = Spending::default();
        let tokens = Tokens {
            input: 10,
            output: 5,
            total: 20,
        };
        spending.turn(Some(tokens));
        spending.turn(None);
        let spent = spending.spent();
        assert_eq!(
            (spent.turns, spent.input_tokens, spent.total_tokens),
            (2, 10, 20)
        );
    }

    #[test]
    fn a_budget_is_spent_when_it_is_reached() {
        let dollars = |limit| Budget {
            cost_usd: Some(limit),
            ..Budget::default()
        };
        let mut spending = Spending::default();
        assert!(spending.check(dollars(0.0)).is_err());
        assert!(spending.check(dollars(0.5)).is_ok());
        spending.report("a", &cost(0.5));
        assert_eq!(
            spending.check(dollars(0.5)).unwrap_err().to_string(),
            "the budget is spent: 0.5000 USD of 0.5000 USD"
        );
        assert!(spending.check(Budget::default()).is_ok());
        spending.turn(None);
        let tokens = Budget {
            tokens: Some(10),
            ..Budget::default()
        };
        assert!(spending.check(tokens).is_ok());
        assert_eq!(
            (spending.blind(tokens), spending.blind(dollars(1.0))),
            (Some("tokens"), None)
        );
        spending.turn(Some(Tokens {
            total: 10,
            ..Tokens::default()
        }));
        assert!(spending.check(tokens).is_err());
    }
}
