//! One origin of whatever kind: its place among requests at once, and one attempt of a request.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::admission::Admission;
use crate::config::{ConfigError, HealthRules, OriginConfig, OriginKind};
use crate::exchange::AttemptFailure;
use crate::failure::{Failure, FailureKind};
use crate::listing::Listing;
use crate::message::Request;
use crate::network::Connect;
use crate::remote::Remote;
use crate::response::Answer;
use crate::s3::Bucket;
use crate::standing::{OriginStatistics, Standing};
use crate::tree::Tree;

pub(crate) struct Origin {
    pub(crate) name: Arc<str>,
    pub(crate) standing: Arc<Standing>,
    admission: Admission,
    backend: Backend,
}

enum Backend {
    Http(Box<Remote>),
    S3(Box<Bucket>),
    Tree(Tree),
}

impl Origin {
    /// An origin. Tests give a connector of their own.
    pub(crate) fn new(
        config: &OriginConfig,
        rules: HealthRules,
        connector: Option<Box<dyn Connect>>,
    ) -> Result<Self, ConfigError> {
        let standing = Arc::new(Standing::new(rules));
        let backend = match &config.kind {
            OriginKind::Http { base } => {
                Remote::new(config, base, connector, &standing).map(|remote| Backend::Http(Box::new(remote)))
            }
            OriginKind::S3(s3) => {
                Bucket::new(config, s3, connector, &standing).map(|bucket| Backend::S3(Box::new(bucket)))
            }
            OriginKind::Tree { root } => Tree::new(config, root, &standing).map(Backend::Tree),
        };
        let backend = backend.map_err(|reason| ConfigError { name: config.name.clone(), reason })?;
        let admission = Admission::new(&config.limits, &config.times);
        Ok(Self { name: config.name.as_str().into(), standing, admission, backend })
    }

    /// One attempt of a request, on a connection that is not a kept one if it has to be `fresh`.
    pub(crate) async fn attempt(&self, request: &Request, is_fresh: bool) -> Result<Answer, AttemptFailure> {
        self.standing.attempts.fetch_add(1, Ordering::Relaxed);
        let permit = self.admission.enter().await.map_err(AttemptFailure::unsent)?;
        match &self.backend {
            Backend::Http(remote) => remote.fetch(request, permit, is_fresh).await,
            Backend::S3(bucket) => bucket.fetch(request, permit, is_fresh).await,
            Backend::Tree(tree) => tree.fetch(request, permit).await,
        }
    }

    /// Whether it is another server, whose answers say all about its objects.
    pub(crate) fn is_http(&self) -> bool {
        matches!(self.backend, Backend::Http(_))
    }

    /// One attempt to list a folder, with at most so many entries; `None` if there is no such
    /// folder.
    pub(crate) async fn list(
        &self,
        path: &str,
        entries_max: usize,
        is_fresh: bool,
    ) -> Result<Option<Listing>, AttemptFailure> {
        self.standing.attempts.fetch_add(1, Ordering::Relaxed);
        let permit = self.admission.enter().await.map_err(AttemptFailure::unsent)?;
        match &self.backend {
            Backend::Http(_) => {
                let text = "an HTTP origin has no listings; fetch its index page";
                Err(AttemptFailure::unsent(Failure::new(FailureKind::NotListed, text)))
            }
            Backend::S3(bucket) => bucket.list(path, entries_max, permit, is_fresh).await,
            Backend::Tree(tree) => tree.list(path, entries_max, permit).await,
        }
    }

    pub(crate) fn statistics(&self) -> OriginStatistics {
        let (connections, connections_idle) = match &self.backend {
            Backend::Http(remote) => remote.figures(),
            Backend::S3(bucket) => bucket.figures(),
            Backend::Tree(_) => (0, 0),
        };
        let (requests, requests_waiting) = self.admission.figures();
        let counted = self.standing.statistics(&self.name);
        OriginStatistics { connections, connections_idle, requests, requests_waiting, ..counted }
    }
}
