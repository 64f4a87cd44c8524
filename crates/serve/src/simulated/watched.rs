//! Changes that the kernel reports, over the simulated network: validity does not depend on time.

use std::fs;
use std::sync::Arc;

use thalweg_reactor::run;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_sys::Waker;

use super::{Step, folder, naive, send, world};
use crate::config::Limits;
use crate::content::local::watch::test_watcher::TestWatcher;

#[test]
fn a_file_replaced_while_it_is_cached_is_seen_when_the_change_is_reported() {
    let folder = folder();
    let get = || send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    let replace = Step::Do(|folder| {
        fs::write(folder.join("new"), "another text\n").unwrap();
        fs::rename(folder.join("new"), folder.join("a")).unwrap();
    });
    let remove = Step::Do(|folder| fs::remove_file(folder.join("a")).unwrap());
    // A moment for the news; age takes a second.
    let moment = || Step::Rest(1_000_000);
    let first = vec![get(), moment(), get(), moment(), replace, moment(), get(), moment(), remove, moment(), get()];
    let steps = [first, vec![moment(), Step::Finish]].concat();
    let mut driver = Sim::new(SimConfig::calm(1));
    let (mut world, published) = world(&mut driver, &Limits::default(), folder.path(), vec![steps]);
    let (commands, waker) = (Arc::clone(&world.commands), Waker::new().unwrap());
    let watcher = TestWatcher::delivering(move |notices| commands[0].notify(notices, &waker));
    world.service.subscribe(watcher.subscription());
    world.watcher = Some(watcher);
    run(&mut driver, &mut world).unwrap();
    let responses = naive::take_all(&world.clients[0].received, &["GET"]);
    let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 200, 200, 404]);
    let bodies: Vec<&[u8]> = responses[..3].iter().map(|response| response.body.as_slice()).collect();
    assert_eq!(bodies, [b"the letter a\n", b"the letter a\n", b"another text\n"]);
    assert_eq!(published[0].totals().requests, 4);
}
