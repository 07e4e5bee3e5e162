//! stub
#![allow(missing_docs)]
#[derive(Clone, Default)]
pub struct Redactor;
impl Redactor {
    pub fn new() -> Self {
        Self
    }
    pub fn redact<'t>(&self, t: &'t str) -> std::borrow::Cow<'t, str> {
        t.into()
    }
    pub fn contains_secret(&self, _: &str) -> bool {
        false
    }
}
