//! The contract of `Driver`, checked on every driver: the same scenarios run over io_uring and
//! epoll, on real loopback sockets, and over the simulation, calm and rough with several seeds. A
//! test's name contains driver and seed.
//!
//! Every completion of every scenario passes through the [`stage::Stage`], which knows what the
//! contract allows for each socket at each time; so each scenario checks the whole contract,
//! besides its own subject.
//!
//! Where the kernel or a container refuses io_uring, its part fails, since a driver that was not
//! tested is not known to work. Setting `THALWEG_NO_URING` declares this as expected and leaves
//! that part out.

mod faults;
mod flow;
mod kernel;
mod lifecycle;
mod peers;
mod receive_on_demand;
mod soak;
mod stage;

use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_sys::driver::DriverConfig;
use thalweg_sys::{Epoll, Uring, Waker};

use stage::Stage;

/// Virtual time costs nothing.
const SIMULATED_PATIENCE_NS: u64 = 10_000 * 1_000_000_000;

/// Enough for a machine that is busy with something else, too short to be mistaken for a hang.
const REAL_PATIENCE_NS: u64 = 60 * 1_000_000_000;

fn config(sockets_max: usize) -> DriverConfig {
    DriverConfig::new(sockets_max, Waker::new().expect("a descriptor for the waker"))
}

fn waking_early(sockets_max: usize) -> DriverConfig {
    DriverConfig { wake_early_ns: 300_000, ..config(sockets_max) }
}

fn epoll(sockets_max: usize) -> Stage<Epoll> {
    epoll_over(config(sockets_max))
}

fn epoll_waking_early(sockets_max: usize) -> Stage<Epoll> {
    epoll_over(waking_early(sockets_max))
}

fn epoll_over(config: DriverConfig) -> Stage<Epoll> {
    let driver = Epoll::open(&config).expect("epoll opens");
    Stage::new(driver, REAL_PATIENCE_NS, Some(config.waker))
}

fn uring(sockets_max: usize) -> Stage<Uring> {
    uring_over(config(sockets_max))
}

fn uring_waking_early(sockets_max: usize) -> Stage<Uring> {
    uring_over(waking_early(sockets_max))
}

/// So little memory that the ring runs out of it all the time.
fn uring_with_two_buffers(sockets_max: usize) -> Stage<Uring> {
    uring_over(DriverConfig { receive_buffers: 2, receive_buffer_bytes: 4096, ..config(sockets_max) })
}

fn uring_over(config: DriverConfig) -> Stage<Uring> {
    let driver = Uring::open(&config).expect("io_uring opens, as it did before");
    Stage::new(driver, REAL_PATIENCE_NS, Some(config.waker))
}

/// Whether io_uring is to be tested here.
fn uring_is_due() -> bool {
    if std::env::var_os("THALWEG_NO_URING").is_some() {
        return false;
    }
    if let Err(error) = Uring::open(&config(4)) {
        panic!("io_uring is refused on this machine ({error}); set THALWEG_NO_URING=1 to leave its tests out");
    }
    true
}

fn simulated(network: &SimConfig, sockets_max: usize) -> Stage<Sim> {
    let network = SimConfig { sockets_max, ..network.clone() };
    Stage::new(Sim::new(network), SIMULATED_PATIENCE_NS, None)
}

macro_rules! over_the_kernel {
    ($($topic:ident: $($scenario:ident)*;)*) => {
        mod over_epoll {
            $($(#[test] fn $scenario() { crate::contract::$topic::$scenario(&crate::contract::epoll); })*)*
        }
        mod over_epoll_waking_early {
            $($(#[test] fn $scenario() { crate::contract::$topic::$scenario(&crate::contract::epoll_waking_early); })*)*
        }
        mod over_uring {
            $($(#[test] fn $scenario() {
                if crate::contract::uring_is_due() {
                    crate::contract::$topic::$scenario(&crate::contract::uring);
                }
            })*)*
        }
        mod over_uring_waking_early {
            $($(#[test] fn $scenario() {
                if crate::contract::uring_is_due() {
                    crate::contract::$topic::$scenario(&crate::contract::uring_waking_early);
                }
            })*)*
        }
        mod over_uring_with_two_buffers {
            $($(#[test] fn $scenario() {
                if crate::contract::uring_is_due() {
                    crate::contract::$topic::$scenario(&crate::contract::uring_with_two_buffers);
                }
            })*)*
        }
    };
}

macro_rules! over_all_drivers {
    ($($scenarios:tt)*) => {
        mod all {
            over_the_kernel! { $($scenarios)* }
            over_networks! { [calm_1 calm 1] $($scenarios)* }
            over_networks! { [rough_1 rough 1] $($scenarios)* }
            over_networks! { [rough_2 rough 2] $($scenarios)* }
            over_networks! { [rough_3 rough 3] $($scenarios)* }
            over_networks! { [rough_4 rough 4] $($scenarios)* }
        }
    };
}

macro_rules! over_networks {
    ([$name:ident $kind:ident $seed:literal] $($topic:ident: $($scenario:ident)*;)*) => {
        mod $name {
            $($(#[test] fn $scenario() {
                let network = thalweg_reactor::sim::SimConfig::$kind($seed);
                crate::contract::$topic::$scenario(&|sockets_max| crate::contract::simulated(&network, sockets_max));
            })*)*
        }
    };
}

over_all_drivers! {
    lifecycle:
        echoes_over_ipv4 echoes_over_ipv6 last_bytes_arrive_before_the_end comes_from_the_source_asked_for serves_many_connections_at_once
        delivers_what_came_before_acceptance half_closes_in_both_directions ends_after_the_send_under_way
        last_bytes_arrive_with_the_end
        close_silences_a_busy_socket close_within_a_wake_up_silences_the_rest_of_it an_index_used_again_is_another_socket a_closed_id_panics
        a_closed_listener_refuses;
    flow:
        transfers_megabytes_both_ways_at_once sends_nothing_at_once a_second_send_panics
        a_paused_receiver_holds_the_sender_back sends_files_with_heads tells_what_the_peer_has_not_acknowledged
        a_reset_drops_what_was_not_taken a_reset_right_behind_a_send_drops_it a_pause_right_behind_a_resume_pauses;
    faults:
        a_port_without_listener_refuses unread_bytes_at_close_do_not_end_in_silence sending_to_nobody_fails
        a_file_that_is_too_short_fails_the_send a_file_that_has_changed_fails_the_send_that_ends_its_response
        a_full_table_stops_accepting_until_resumed a_full_table_refuses_to_connect;
    receive_on_demand:
        receives_what_it_asks_for_and_no_more waits_for_bytes_that_were_asked_for holds_the_sender_back
        hears_of_an_end_when_it_asks hears_of_a_reset_when_it_asks a_close_takes_the_asking_back
        sends_while_it_does_not_ask asking_wrongly_panics;
    kernel: waits_until_the_deadline_but_not_longer_than_asked stamps_sends_between_call_and_completion
        a_send_is_not_stamped_later_than_its_completion;
    soak: random_operations_keep_every_byte_in_order;
}

mod kernel_only {
    over_the_kernel! {
        kernel: wakes_from_another_thread adopts_a_listening_socket serves_a_flooding_peer_and_others_alike
            gives_everything_back_when_dropped;
        receive_on_demand: bounds_what_the_kernels_hold;
        peers: echoes_over_a_unix_path echoes_over_an_abstract_name a_unix_connect_that_fails_at_once_is_told_once
            a_full_unix_listener_refuses a_unix_socket_receives_on_demand comes_from_the_ports_asked_for
            ports_that_are_taken_are_passed_over;
    }
}
