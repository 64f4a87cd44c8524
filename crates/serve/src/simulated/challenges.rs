//! Challenges of a certification authority: answered while they are open, for any host, before
//! the files of the same names.

use std::fs;

use thalweg_reactor::run;
use thalweg_reactor::sim::{Sim, SimConfig};

use super::{folder, naive, send, world};
use crate::config::Limits;

const REQUESTS: &str = "GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: h\r\n\r\n\
    HEAD /.well-known/acme-challenge/token HTTP/1.1\r\nHost: another\r\n\r\n\
    GET http://h/.well-known/acme-challenge/token?q HTTP/1.1\r\nHost: h\r\n\r\n\
    GET /.well-known/acme-challenge/toke HTTP/1.1\r\nHost: h\r\n\r\n\
    POST /.well-known/acme-challenge/token HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n\
    GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const METHODS: &[&str] = &["GET", "HEAD", "GET", "GET", "POST", "GET"];

fn statuses_and_bodies(is_open: bool) -> Vec<(u16, Vec<u8>)> {
    let dir = folder();
    fs::create_dir_all(dir.path().join(".well-known/acme-challenge")).unwrap();
    fs::write(dir.path().join(".well-known/acme-challenge/token"), "a file").unwrap();
    let mut driver = Sim::new(SimConfig::calm(1));
    let start = thalweg_sys::Driver::now(&driver);
    let (mut world, _) = world(&mut driver, &Limits::default(), dir.path(), vec![vec![send(REQUESTS)]]);
    world.challenges.add("token", "token.print").unwrap();
    if !is_open {
        world.challenges.remove("token");
    }
    run(&mut driver, &mut world).unwrap();
    let received = world.outcomes(start).remove(0).received;
    let responses = naive::take_all(&received, METHODS);
    let challenge = responses.iter().find(|response| response.body == b"token.print");
    assert_eq!(challenge.is_some(), is_open);
    assert!(challenge.is_none_or(|response| response.field("content-type") == Some("application/octet-stream")));
    responses.into_iter().map(|response| (response.status, response.body)).collect()
}

#[test]
fn open_challenges_are_answered_before_files() {
    let answered = statuses_and_bodies(true);
    let body = b"token.print".to_vec();
    assert_eq!(answered[..3], [(200, body.clone()), (200, Vec::new()), (200, body)]);
    assert_eq!((answered[3].0, answered[4].0), (404, 405));
    assert_eq!(answered[5], (200, b"the letter a\n".to_vec()));
    let files = statuses_and_bodies(false);
    let statuses: Vec<u16> = files.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200, 200, 200, 404, 405, 200]);
    assert_eq!(files[0].1, b"a file");
}
