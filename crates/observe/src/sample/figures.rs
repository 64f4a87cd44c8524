//! Groups of figures that are subtracted, added up and listed field by field.
//!
//! A field is a *counter* (the growth within the interval; two intervals add up), a *gauge* (the
//! value at the interval's end; two intervals give their mean by length) or a *peak* (the value at
//! the interval's end; two intervals give the higher one).

/// A group of figures.
pub trait Figures: Copy {
    /// The growth of the counters since `earlier`; gauges and peaks as they are. A counter that has
    /// gone back, as after a restart, has not grown.
    #[must_use]
    fn since(self, earlier: Self) -> Self;

    /// The figures of two intervals as those of one, of which `weight` (0 to 1) is the share of
    /// `later`.
    #[must_use]
    fn joined(self, later: Self, weight: f64) -> Self;

    /// Passes each field's name and value to `column`: a counter's per second.
    fn columns(self, seconds: f64, column: &mut dyn FnMut(&'static str, f64));
}

macro_rules! figures {
    ($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $kind:ident $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$field_about])* pub $field: figures!(@type $kind),)*
        }

        impl $crate::sample::figures::Figures for $name {
            fn since(self, earlier: Self) -> Self {
                let _ = earlier;
                Self { $($field: figures!(@since $kind, self.$field, earlier.$field),)* }
            }

            fn joined(self, later: Self, weight: f64) -> Self {
                let _ = weight;
                Self { $($field: figures!(@joined $kind, self.$field, later.$field, weight),)* }
            }

            fn columns(self, seconds: f64, column: &mut dyn FnMut(&'static str, f64)) {
                let _ = seconds;
                $(column(stringify!($field), figures!(@column $kind, self.$field, seconds));)*
            }
        }
    };
    (@type gauge) => { f64 };
    (@type $kind:ident) => { u64 };
    (@since counter, $now:expr, $earlier:expr) => { $now.saturating_sub($earlier) };
    (@since $kind:ident, $now:expr, $earlier:expr) => { $now };
    (@joined counter, $a:expr, $b:expr, $weight:expr) => { $a.saturating_add($b) };
    (@joined gauge, $a:expr, $b:expr, $weight:expr) => { $a * (1.0 - $weight) + $b * $weight };
    (@joined peak, $a:expr, $b:expr, $weight:expr) => { $a.max($b) };
    (@column counter, $value:expr, $seconds:expr) => { $value as f64 / $seconds };
    (@column gauge, $value:expr, $seconds:expr) => { $value };
    (@column peak, $value:expr, $seconds:expr) => { $value as f64 };
}
pub(crate) use figures;
