//! Connecting to one of several addresses (RFC 8305): both families in turn, the next address after
//! a failure or a quarter of a second; the first connection wins.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::io_error;
use crate::failure::{Failure, FailureKind};

/// RFC 8305, 5: the recommended delay between attempts.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Addresses that are tried, at most.
const ADDRESSES_MAX: usize = 16;

type Failures = Vec<(SocketAddr, io::Error)>;

/// Connects to the first address that answers.
pub(super) async fn dial(addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), Failures> {
    race(addresses, |address| async move {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(socket)
    })
    .await
}

/// The failure of all addresses.
pub(super) fn failure(name: &str, failures: &Failures) -> Failure {
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    let is_refused = failures.iter().all(|(_, error)| refused(error));
    let kind = if is_refused { FailureKind::Refused } else { FailureKind::Unreachable };
    let each = failures.iter().map(|(address, error)| format!("{address}: {}", io_error::text(error)));
    Failure::new(kind, format!("connecting to {name}: {}", each.collect::<Vec<_>>().join(", ")))
}

async fn race<T, F>(addresses: &[SocketAddr], connect: impl Fn(SocketAddr) -> F) -> Result<(T, SocketAddr), Failures>
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut ahead = in_turn(addresses).into_iter();
    let mut attempts = JoinSet::new();
    let mut failures = Failures::new();
    loop {
        match ahead.next() {
            Some(address) => {
                let connecting = connect(address);
                attempts.spawn(async move { (address, connecting.await) });
            }
            None if attempts.is_empty() => return Err(failures),
            None => {}
        }
        let may_hurry = ahead.len() > 0;
        tokio::select! {
            Some(ended) = attempts.join_next() => match ended {
                Ok((address, Ok(connection))) => return Ok((connection, address)),
                Ok((address, Err(error))) => failures.push((address, error)),
                Err(_) => {}
            },
            () = sleep(NEXT_ADDRESS), if may_hurry => {}
        }
    }
}

/// The addresses with their families in turn, that of the first one first.
fn in_turn(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_first_family = |address: &&SocketAddr| address.is_ipv6() == addresses[0].is_ipv6();
    let (mut one, mut other): (Vec<_>, Vec<_>) = addresses.iter().partition(is_first_family);
    let mut mixed = Vec::with_capacity(addresses.len());
    one.reverse();
    other.reverse();
    while let Some(address) = one.pop().or_else(|| other.pop()) {
        mixed.push(address);
        mixed.extend(other.pop());
    }
    mixed.truncate(ADDRESSES_MAX);
    mixed
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_come_in_turn() {
        let given = addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "1.0.0.1:1", "1.0.0.2:1"]);
        let expected = addresses(&["[::1]:1", "1.0.0.1:1", "[::2]:1", "1.0.0.2:1", "[::3]:1"]);
        assert_eq!(in_turn(&given), expected);
        let many: Vec<_> = (0..100).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        assert_eq!(in_turn(&many), many[..ADDRESSES_MAX]);
    }

    /// Connects by port: port 1 never answers, port 2 refuses at once, port 3 takes 100 ms.
    async fn check(ports: &[u16], expected: Result<u16, usize>, after_ms: u64) {
        let start = Instant::now();
        let addresses: Vec<_> = ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port))).collect();
        let outcome = race(&addresses, |address| async move {
            match address.port() {
                1 => std::future::pending().await,
                2 => Err(io::ErrorKind::ConnectionRefused.into()),
                _ => {
                    sleep(Duration::from_millis(100)).await;
                    Ok(())
                }
            }
        })
        .await;
        let outcome = outcome.map(|(_, address)| address.port()).map_err(|failures| failures.len());
        assert_eq!((outcome, start.elapsed().as_millis() as u64), (expected, after_ms), "{ports:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_address_is_tried_after_a_failure_or_a_delay() {
        check(&[3], Ok(3), 100).await;
        check(&[2, 3], Ok(3), 100).await;
        check(&[1, 3], Ok(3), 350).await;
        check(&[1, 1, 2, 3], Ok(3), 600).await;
        check(&[2, 2], Err(2), 0).await;
    }

    #[test]
    fn addresses_that_all_refuse_are_refused() {
        let failures = |kinds: &[io::ErrorKind]| -> Failures {
            kinds.iter().map(|kind| ("127.0.0.1:1".parse().unwrap(), (*kind).into())).collect()
        };
        use io::ErrorKind::{ConnectionRefused, HostUnreachable};
        assert_eq!(failure("a", &failures(&[ConnectionRefused; 2])).kind, FailureKind::Refused);
        let mixed = failure("a", &failures(&[ConnectionRefused, HostUnreachable]));
        assert_eq!(mixed.kind, FailureKind::Unreachable);
        assert_eq!(
            mixed.to_string(),
            "connecting to a: 127.0.0.1:1: connection refused, 127.0.0.1:1: host unreachable"
        );
    }
}
