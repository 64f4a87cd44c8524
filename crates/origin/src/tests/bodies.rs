//! Bodies: lengths, chunks, and ends that come early.

use super::server::{Do, Server, get, group, ok};
use crate::message::Request;

async fn check(response: &str, expected: &str) {
    let server = Server::new(vec![vec![Do::Read, Do::Send(response.into())]; 2]);
    assert_eq!(get(&group(&[server]), "/").await, expected, "{response}");
}

#[tokio::test(start_paused = true)]
async fn bodies_end_where_their_framing_says() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(&format!("{chunked}3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\n"), "200 abcde").await;
    check(&format!("{chunked}3\r\nabc\r\n"), "200, then cut_off after 3").await;
    check(&format!("{chunked}zz\r\nabc\r\n"), "200, then cut_off after 0").await;
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", "200 abcde").await;
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "200, then cut_off after 3").await;
    check("HTTP/1.1 200 OK\r\n\r\nto the end", "200 to the end").await;
    check("HTTP/1.1 204 No Content\r\n\r\n", "204 ").await;
    check("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "304 ").await;
    check("HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", "200 a").await;
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", "a:protocol").await;
    check("nonsense\r\n\r\n", "a:protocol").await;
}

#[tokio::test(start_paused = true)]
async fn framings_and_protocols_that_nobody_asked_for_are_no_answers() {
    for coding in ["gzip, chunked", "gzip", "chunked, chunked", "identity, chunked"] {
        let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
        check(&head, "a:protocol").await;
    }
    let both = "Content-Length: 13\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    check(&format!("HTTP/1.1 200 OK\r\n{both}"), "a:protocol").await;
    check("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nGARBAGE", "a:protocol").await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_such_an_answer_is_not_used_again() {
    let wrong = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    let server = Server::new([vec![Do::Read, Do::Send(wrong.into()), Do::Hang], vec![Do::Read, ok("b"), Do::Hang]]);
    let group = group(std::slice::from_ref(&server));
    assert_eq!((get(&group, "/a").await, get(&group, "/b").await), ("a:protocol".into(), "200 b".into()));
    assert_eq!(server.connects(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_body_tells_how_far_it_came() {
    let server = Server::new([vec![Do::Read, Do::Send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc".into())]]);
    let group = group(&[server]);
    let mut answer = group.fetch(&Request::get("/")).await.unwrap();
    assert_eq!(answer.length, Some(5));
    let mut pieces = Vec::new();
    let error = loop {
        match answer.body.next().await.expect("it does not end well") {
            Ok(piece) => pieces.extend(piece),
            Err(error) => break error,
        }
    };
    assert_eq!((&*pieces, error.received, error.expected), (&b"abc"[..], 3, Some(5)));
    assert!(error.to_string().starts_with("the body ended after 3 bytes of 5: "), "{error}");
    assert!(answer.body.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_head_has_the_length_of_the_body_that_it_lacks() {
    let server =
        Server::new([vec![Do::Read, Do::Send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".into()), Do::Hang]]);
    let group = group(&[server]);
    let answer = group.fetch(&Request::new(hyper::Method::HEAD, "/")).await.unwrap();
    assert_eq!((answer.status, answer.length), (200, Some(5)));
    assert_eq!(answer.body.collect(9).await.unwrap().unwrap(), "");
    assert_eq!(group.statistics()[0].connections_idle, 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_is_collected_up_to_a_bound() {
    for (bytes_max, expected) in [(4, None), (5, Some("abcde"))] {
        for framing in ["Content-Length: 5\r\n\r\nabcde", "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"] {
            let server = Server::new([vec![Do::Read, Do::Send(format!("HTTP/1.1 200 OK\r\n{framing}"))]]);
            let answer = group(&[server]).fetch(&Request::get("/")).await.unwrap();
            let body = answer.body.collect(bytes_max).await.unwrap();
            assert_eq!(body.as_deref(), expected.map(str::as_bytes), "{framing}");
        }
    }
}
