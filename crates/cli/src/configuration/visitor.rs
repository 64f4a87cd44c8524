//! The visitor of the configuration's keys.

use super::form::Form;

/// A visitor of all keys of the configuration, which reads or prints them.
pub(super) trait Keys {
    /// A key that may be left out.
    fn value<T>(&mut self, name: &'static str, says: &'static str, form: &Form<T>, value: &mut T);

    /// A key that every such table has.
    fn required<T>(&mut self, name: &'static str, says: &'static str, form: &Form<T>, value: &mut T);

    /// A table of keys that is always there.
    fn table<T>(&mut self, name: &'static str, says: &'static str, value: &mut T, keys: fn(&mut Self, &mut T));

    /// A table that means something by being there.
    fn optional<T>(
        &mut self,
        name: &'static str,
        says: &'static str,
        value: &mut Option<T>,
        new: fn() -> T,
        keys: fn(&mut Self, &mut T),
    );

    /// Any number of tables.
    fn tables<T>(
        &mut self,
        name: &'static str,
        says: &'static str,
        values: &mut Vec<T>,
        new: fn() -> T,
        keys: fn(&mut Self, &mut T),
    );
}
