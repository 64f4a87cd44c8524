//! Families of metrics, as they are written for a collector.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Writes families of metrics.
pub(super) struct Out<'o, 'e>(pub(super) &'o mut DescriptorEncoder<'e>);

impl Out<'_, '_> {
    pub(super) fn counter(&mut self, name: &str, help: &str, unit: Option<Unit>, value: u64) -> fmt::Result {
        self.0
            .encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, unit: Option<Unit>, value: u64) -> fmt::Result {
        self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?.encode_gauge(&value)
    }

    pub(super) fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let encode = |mut of: MetricEncoder<'_>, value: u64| of.encode_counter::<NoLabelSet, _, u64>(&value, None);
        self.family(name, help, unit, MetricType::Counter, values, encode)
    }

    pub(super) fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let encode = |mut of: MetricEncoder<'_>, value: u64| of.encode_gauge(&value);
        self.family(name, help, unit, MetricType::Gauge, values, encode)
    }

    fn family<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        kind: MetricType,
        values: impl IntoIterator<Item = (L, u64)>,
        encode: impl Fn(MetricEncoder<'_>, u64) -> fmt::Result,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, value) in values {
            encode(family.encode_family(&labels)?, value)?;
        }
        Ok(())
    }
}
