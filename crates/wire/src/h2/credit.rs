//! The work that a client may cause without asking for anything.
//!
//! Some frames cost work and carry nothing: PING, SETTINGS, empty DATA, resets (rapid reset,
//! CVE-2023-44487), and frames that make the server reset a stream (CVE-2025-8671). Each is paid
//! from a credit that requests, sent data and time earn. A client whose credit is used up is
//! disconnected (ENHANCE_YOUR_CALM).

/// The credit at first, and at most.
const CREDIT_MAX: u32 = 2000;
/// Earned by each request.
const BY_REQUEST: u32 = 5;
/// Earned by each DATA frame of the server, which WINDOW_UPDATE frames answer.
const BY_DATA: u32 = 3;
/// Earned in each second.
const BY_SECOND: u32 = 20;

/// Frames that are paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charge {
    WindowUpdate,
    EmptyData,
    Priority,
    Unknown,
    Continuation,
    Ping,
    Settings,
    /// A stream reset, by the client or for a fault of the client's. A browser that leaves a page
    /// resets some dozens at once.
    Reset,
}

impl Charge {
    const fn amount(self) -> u32 {
        match self {
            Self::WindowUpdate => 1,
            Self::EmptyData | Self::Priority | Self::Unknown | Self::Continuation => 2,
            Self::Ping => 5,
            Self::Settings => 10,
            Self::Reset => 15,
        }
    }
}

#[derive(Debug)]
pub(super) struct Credit(u32);

impl Credit {
    pub(super) const fn new() -> Self {
        Self(CREDIT_MAX)
    }

    /// Pays for a frame. Returns whether the credit sufficed.
    pub(super) fn pay(&mut self, charge: Charge) -> bool {
        let left = self.0.checked_sub(charge.amount());
        self.0 = left.unwrap_or(0);
        left.is_some()
    }

    pub(super) fn earn_request(&mut self) {
        self.earn(BY_REQUEST);
    }

    pub(super) fn earn_data(&mut self) {
        self.earn(BY_DATA);
    }

    pub(super) fn earn_time(&mut self, seconds: u32) {
        self.earn(BY_SECOND.saturating_mul(seconds));
    }

    fn earn(&mut self, amount: u32) {
        self.0 = self.0.saturating_add(amount).min(CREDIT_MAX);
    }
}
