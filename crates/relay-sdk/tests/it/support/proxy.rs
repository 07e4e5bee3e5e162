//! Something between client and server that drops, delays and cuts connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Everything goes through.
    Fine,
    /// Everything goes through, late.
    Slow(Duration),
    /// Connections stay, but nothing goes through.
    Silent,
    /// What is asked arrives; instead of the answer the connection is cut.
    Deaf,
    /// Connections are cut, and new ones, too.
    Down,
}

/// A proxy to one server.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    weather: watch::Sender<Weather>,
    cuts: watch::Sender<u64>,
    connections: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (weather, sky) = watch::channel(Weather::Fine);
        let (cuts, cut) = watch::channel(0);
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if *sky.borrow() == Weather::Down {
                    continue;
                }
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(carry(near, server, sky.clone(), cut.clone()));
            }
        });
        Self {
            address,
            weather,
            cuts,
            connections,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes the weather.
    pub(crate) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
        if weather == Weather::Down {
            self.cut();
        }
    }

    /// Cuts every connection.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn carry(
    near: TcpStream,
    server: SocketAddr,
    weather: watch::Receiver<Weather>,
    mut cut: watch::Receiver<u64>,
) {
    cut.mark_unchanged();
    let Ok(far) = TcpStream::connect(server).await else {
        return;
    };
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    tokio::select! {
        () = pump(near_in, far_out, weather.clone(), Way::There) => {}
        () = pump(far_in, near_out, weather, Way::Back) => {}
        _ = cut.changed() => {}
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To the server.
    There,
    /// From the server.
    Back,
}

/// Carries bytes one way until one side ends.
async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
    way: Way,
) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let sky = *weather.borrow_and_update();
        match sky {
            Weather::Deaf if way == Way::Back => return,
            Weather::Fine | Weather::Down | Weather::Deaf => {}
            Weather::Slow(delay) => tokio::time::sleep(delay).await,
            Weather::Silent => {
                let _ = weather.wait_for(|sky| *sky != Weather::Silent).await;
            }
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
