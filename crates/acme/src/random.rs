//! A random share, to spread requests of many servers.

/// A number from 0 up to 1, the latter excluded.
pub(crate) fn share() -> f64 {
    let mut bytes = [0; 4];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has randomness, as keys need it too");
    f64::from(u32::from_ne_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}
