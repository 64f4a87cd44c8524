//! Answers of an HTTP origin that lead elsewhere: addresses that clients understand, and redirects
//! that are followed.
//!
//! A redirect within the origin's folder is asked of the origin itself, one to another host of that
//! host, without what was meant for the origin. The answer is stored under the first address, as
//! any other one; parts of it are asked for in the same way, since signed addresses end.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_caching::{
    OriginPlace, RedirectHost, StoredFields, inherit, make_absolute, next_address, without_credentials,
};
use thalweg_origin::{AttemptPolicy, GroupConfig, Method, OriginConfig, OriginGroup, OriginKind, Request, is_failure};
use url::Url;

use crate::upstream::{UpstreamFailure, UpstreamResponse};

/// Hosts whose connections are kept.
const HOSTS_MAX: usize = 32;

/// An HTTP origin of a mount.
pub struct HttpOrigin {
    /// Its folder, and where clients see it.
    pub place: OriginPlace,
    /// Whether addresses in its responses are made those of the mount.
    pub rewrites: bool,
    /// The redirects that are followed.
    pub redirects: Option<Redirects>,
}

/// The redirects of an origin that are followed.
pub struct Redirects {
    hops_max: u32,
    hosts: Vec<RedirectHost>,
    /// The settings of other hosts, but for their place.
    settings: OriginConfig,
    /// The hosts that were asked last, the last one at the end.
    groups: Mutex<Vec<(String, Arc<OriginGroup>)>>,
}

impl Redirects {
    /// Up to so many redirects, one after the other, are followed to these hosts, which are asked
    /// with these settings.
    pub fn new(hops_max: u32, hosts: Vec<RedirectHost>, settings: OriginConfig) -> Self {
        Self { hops_max, hosts, settings, groups: Mutex::default() }
    }

    /// The connections to the host of a URL.
    fn group(&self, url: &Url) -> Result<Arc<OriginGroup>, String> {
        let base = format!("{}/", &url[..url::Position::BeforePath]);
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = groups.iter().position(|(known, _)| *known == base) {
            let known = groups.remove(at);
            let group = Arc::clone(&known.1);
            groups.push(known);
            return Ok(group);
        }
        let kind = OriginKind::Http { base: base.parse().map_err(|error| format!("{base}: {error}"))? };
        let settings = OriginConfig { kind, ..self.settings.clone() };
        let group = OriginGroup::new(vec![settings], GroupConfig::default()).map_err(|error| error.to_string())?;
        let group = Arc::new(group);
        if groups.len() >= HOSTS_MAX {
            groups.remove(0);
        }
        groups.push((base, Arc::clone(&group)));
        Ok(group)
    }
}

/// A request that an origin of a group has answered.
pub(crate) struct Answered<'a> {
    pub(crate) group: &'a OriginGroup,
    pub(crate) origin_index: usize,
    pub(crate) request: &'a Request,
    /// Others are asked if a host fails that a redirect leads to.
    pub(crate) has_others: bool,
}

impl HttpOrigin {
    /// The response for clients.
    pub(crate) async fn finish(
        &self,
        answered: Answered<'_>,
        mut response: UpstreamResponse,
    ) -> Result<UpstreamResponse, UpstreamFailure> {
        let target = &*answered.request.path;
        let Some(mut url) = self.place.url(target) else { return Ok(response) };
        if let Some(redirects) = &self.redirects {
            (url, response) = self.follow(redirects, &answered, (url, response)).await?;
        }
        match self.place.target(&url) {
            Some(target) if self.rewrites => self.place.rewrite(target, &mut response.fields),
            Some(_) => {}
            None => make_absolute(&url, &mut response.fields),
        }
        Ok(response)
    }

    async fn follow(
        &self,
        redirects: &Redirects,
        answered: &Answered<'_>,
        (mut url, mut response): (Url, UpstreamResponse),
    ) -> Result<(Url, UpstreamResponse), UpstreamFailure> {
        let mut hops = 0;
        while let Some(next) = self.next(redirects, answered, (&url, &response)) {
            hops += 1;
            if hops > redirects.hops_max {
                let host = next.host_str().unwrap_or_default();
                let reason = format!("more than {} redirects, the last one to {host}", redirects.hops_max);
                return Err(UpstreamFailure { status: 502, reason: reason.into() });
            }
            let followed = self.fetch(redirects, answered, &next).await?;
            if answered.has_others && is_failure(followed.status) {
                let host = next.host_str().unwrap_or_default();
                let reason = format!("{host}, which a redirect led to, answered with {}", followed.status);
                return Err(UpstreamFailure { status: 502, reason: reason.into() });
            }
            let redirect = std::mem::replace(&mut response, followed);
            inherit(&redirect.fields, response.status, &mut response.fields);
            url = next;
        }
        Ok((url, response))
    }

    /// The address that is asked next, if a response leads to one that is followed. A permanent
    /// redirect within the folder is for the client, which would else resolve what it got against
    /// the wrong address.
    fn next(
        &self,
        redirects: &Redirects,
        answered: &Answered<'_>,
        (url, response): (&Url, &UpstreamResponse),
    ) -> Option<Url> {
        if !matches!(answered.request.method, Method::GET | Method::HEAD) {
            return None;
        }
        let own = self.place.hosts();
        let within = next_address(url, response.status, &response.fields, &own)
            .filter(|next| self.place.target(next).is_some() && matches!(response.status, 302 | 303 | 307));
        within.or_else(|| {
            let next = next_address(url, response.status, &response.fields, &redirects.hosts)?;
            self.place.target(&next).is_none().then_some(next)
        })
    }

    async fn fetch(
        &self,
        redirects: &Redirects,
        answered: &Answered<'_>,
        url: &Url,
    ) -> Result<UpstreamResponse, UpstreamFailure> {
        let Answered { group, origin_index, request, .. } = answered;
        let failed = |reason: String| UpstreamFailure { status: 502, reason: reason.into() };
        if let Some(target) = self.place.target(url) {
            let policy = AttemptPolicy { preferred: Some(*origin_index), only_preferred: true, ..request.policy };
            let asked = Request { path: target.to_owned(), policy, ..Request::clone(request) };
            return Ok(group.fetch(&asked).await.map_err(UpstreamFailure::from)?.into());
        }
        let mut fields = StoredFields::default();
        for (name, value) in &request.fields {
            fields.push(&String::from_utf8_lossy(name), value);
        }
        let fields = without_credentials(&fields);
        let other = redirects.group(url).map_err(failed)?;
        let path = url[url::Position::BeforePath..url::Position::AfterQuery].to_owned();
        let lines = thalweg_caching::FieldLines::lines(&fields);
        let fields = lines.map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec())).collect();
        let asked = Request { path, fields, policy: AttemptPolicy::default(), ..Request::clone(request) };
        Ok(other.fetch(&asked).await.map_err(UpstreamFailure::from)?.into())
    }
}
