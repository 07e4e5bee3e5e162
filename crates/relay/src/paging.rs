//! Lists that come in pages.

use relay_protocol::api::Page;
use relay_sdk::Error;

use crate::failure::Outcome;

/// Everything that is listed, as one page; `ask` gets the page after a cursor.
pub(crate) async fn all_pages<T>(
    ask: impl AsyncFn(Option<&str>) -> Result<Page<T>, Error>,
) -> Outcome<Page<T>> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = ask(cursor.as_deref()).await?;
        items.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(Page {
                items,
                next_cursor: None,
            });
        }
    }
}
