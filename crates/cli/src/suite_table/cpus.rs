//! The CPUs of servers and clients.

use thalweg_sys::affinity;

use crate::exit::{Failure, remark};
use crate::options::{CpuList, SuiteTableOptions};

/// The CPUs of servers and clients. Each has those that the other one was not given, or a half. A
/// host with a single one has it for both.
pub(super) fn shared_out(options: &SuiteTableOptions) -> Result<(Vec<usize>, Vec<usize>), Failure> {
    let allowed = affinity::allowed_cpus().map_err(Failure::unreachable)?;
    let [servers, clients] = [(&options.server_cpus, "--server-cpus"), (&options.client_cpus, "--client-cpus")]
        .map(|(list, option)| given(list.as_ref(), &allowed, option));
    let (servers, clients) = with_defaults(servers?, clients?, &allowed);
    if servers.iter().any(|cpu| clients.contains(cpu)) {
        remark(&format!(
            "servers have the CPUs {servers:?} and clients {clients:?}: what both have, the client takes from the server, \
             and figures are lower"
        ));
    }
    Ok((servers, clients))
}

fn given(list: Option<&CpuList>, allowed: &[usize], option: &str) -> Result<Option<Vec<usize>>, Failure> {
    let Some(list) = list else { return Ok(None) };
    match list.0.iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(Some(list.0.clone())),
        Some(cpu) => {
            Err(Failure::usage(format!("{option}: CPU {cpu} is not available to this process; it may use {allowed:?}")))
        }
    }
}

fn with_defaults(
    servers: Option<Vec<usize>>,
    clients: Option<Vec<usize>>,
    allowed: &[usize],
) -> (Vec<usize>, Vec<usize>) {
    let others = |taken: &[usize]| {
        let others: Vec<usize> = allowed.iter().copied().filter(|cpu| !taken.contains(cpu)).collect();
        if others.is_empty() { allowed.to_vec() } else { others }
    };
    match (servers, clients) {
        (Some(servers), Some(clients)) => (servers, clients),
        (Some(servers), None) => (servers.clone(), others(&servers)),
        (None, Some(clients)) => (others(&clients), clients),
        (None, None) => {
            let first = allowed[..(allowed.len() / 2).max(1)].to_vec();
            (first.clone(), others(&first))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_what_the_other_one_does_not() {
        #[track_caller]
        fn check(servers: Option<&[usize]>, clients: Option<&[usize]>, allowed: &[usize], expected: [&[usize]; 2]) {
            let (servers, clients) = with_defaults(servers.map(Into::into), clients.map(Into::into), allowed);
            assert_eq!([&servers[..], &clients[..]], expected);
        }
        check(None, None, &[0, 1, 2, 3, 4], [&[0, 1], &[2, 3, 4]]);
        check(None, None, &[7], [&[7], &[7]]);
        check(Some(&[2]), None, &[0, 1, 2, 3], [&[2], &[0, 1, 3]]);
        check(None, Some(&[0]), &[0, 1], [&[1], &[0]]);
        check(Some(&[0, 1]), None, &[0, 1], [&[0, 1], &[0, 1]]);
        check(Some(&[0]), Some(&[0]), &[0, 1], [&[0], &[0]]);
    }
}
