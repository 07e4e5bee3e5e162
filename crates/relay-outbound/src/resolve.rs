//! Finding the addresses of a name.

use std::io;
use std::net::IpAddr;

use futures_util::future::BoxFuture;

/// Addresses that are being looked up.
pub type Resolving<'a> = BoxFuture<'a, io::Result<Vec<IpAddr>>>;

/// Looks up the addresses of names.
pub trait Resolve: Send + Sync {
    /// All addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// Asks the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
