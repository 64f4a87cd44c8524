//! The way of a request to its object: which requests are refused, and which are sent elsewhere.

use std::sync::Arc;

use thalweg_wire::RequestHead;

use super::{Denial, Outcomes, RequestContext, Responder, file_target};
use crate::catalog::routing::Routed;
use crate::http::gate::Closed;
use crate::http::response::{Encoder, PageField, Summary};

impl Responder {
    /// Routes a request for the canonical name. A rewritten name takes its place.
    #[inline(never)]
    pub(super) fn route(&mut self, site: usize, query: Option<&[u8]>) -> Routed {
        let Some(routings) = &self.origin.namespace().routings else { return Routed::Unchanged };
        let routed = routings.route(site, &self.name, query, &mut self.other);
        if routed == Routed::Rewritten {
            std::mem::swap(&mut self.name, &mut self.other);
        }
        routed
    }

    /// Redirects to the address that was written.
    #[cold]
    pub(super) fn redirect(
        &mut self,
        request: &RequestHead<'_>,
        (site, status): (usize, u16),
        outcomes: Outcomes,
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Summary {
        if let Some(summary) = self.refuse_at_gate(request, Some(site), outcomes, context, out) {
            return summary;
        }
        let sites = Arc::clone(self.origin.namespace());
        let mount = sites.mount_number_in(site, &self.name);
        if let (Some(access), Some(mount)) = (&sites.access, mount)
            && let Some(status) = access.refusal(site, mount, context.peer)
        {
            return self.deny((request, context.peer), Denial::of(status), mount, out);
        }
        let address = std::mem::take(&mut self.other);
        let denial = Denial { status, field: PageField::Address(&address) };
        let summary = self.deny((request, context.peer), denial, mount.unwrap_or(sites.topmost), out);
        self.other = address;
        summary
    }

    /// Refuses a request for a site, whose canonical name is known, that the gate does not let in.
    #[inline(never)]
    pub(super) fn refuse_at_gate(
        &mut self,
        request: &RequestHead<'_>,
        site: Option<usize>,
        outcomes: Outcomes,
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Option<Summary> {
        let gate = self.gate.as_mut()?;
        let sites = self.origin.namespace();
        let place = site.map(|site| (site, sites.mount_number_in(site, &self.name)));
        let is_first = outcomes.are_none() && self.forwarder.as_ref().is_none_or(|forwarder| !forwarder.has_answer());
        let passed = gate.pass((context.waiter, request.fields), sites.networks.as_ref(), place, is_first, context.now);
        let denial = match passed.err()? {
            Closed::Network => {
                self.refused.denied += 1;
                Denial::of(403)
            }
            Closed::Rate { wait_s } => {
                self.refused.limited += 1;
                Denial { status: 429, field: PageField::RetryAfter { seconds: wait_s } }
            }
        };
        let mount = place.and_then(|(_, mount)| mount).unwrap_or(sites.topmost);
        Some(self.deny((request, context.peer), denial, mount, out))
    }

    /// The same for a request that is answered without a look at its site.
    #[cold]
    pub(super) fn refuse_other_at_gate(
        &mut self,
        request: &RequestHead<'_>,
        outcomes: Outcomes,
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Option<Summary> {
        self.gate.as_ref()?;
        let site = self.origin.namespace().of_request(request);
        let site =
            site.filter(|&site| file_target(request).is_some_and(|(path, _)| self.find_name(site, path).is_ok()));
        self.refuse_at_gate(request, site, outcomes, context, out)
    }
}
