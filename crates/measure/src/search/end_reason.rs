//! Why a search ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reason why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Ended")]
pub enum EndReason {
    /// The interval of the threshold is as narrow as requested.
    WidthReached,
    /// The time of a search that was asked for no width is over.
    TimeOver,
    /// The highest load that the client can offer is confirmed: the capacity lies above.
    ClientCeiling,
    /// Already the lowest rate fails, or is beyond the client.
    LowestRate,
    /// The next trial would have exceeded the time budget.
    BudgetSpent,
    /// All allowed trials were made.
    TrialsSpent,
    /// The target collapsed under an overload and did not recover in the time that it was given.
    NotRecovered,
    /// The caller has ended the search, see `Search::end`.
    Interrupted,
    /// The caller has ended the search because something else kept the measuring host from
    /// measuring.
    Disturbed,
}
