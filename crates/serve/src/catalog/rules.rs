//! The rules of a site: from a folder and a file's name to the settings that hold for it.
//!
//! Rules are compiled once from the configuration and matched only when a file is loaded. The
//! settings that a combination of rules comes to are made once and shared by all files for which
//! just these rules hold.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::RandomState;
use globset::GlobMatcher;

use crate::catalog::error::CatalogError;
use crate::config::{Rule, Settings};
use crate::content::policy::ResponsePolicy;

/// The index of a folder, unless its settings name others.
const INDEX: &str = "index.html";

/// The rules of a site.
pub(crate) struct Rules {
    rules: Vec<CompiledRule>,
    /// One entry for each combination of rules that was met. The operator's rules bound their
    /// number; clients cannot add to it.
    effective: Mutex<HashMap<Box<[bool]>, EffectiveSettings, RandomState>>,
}

/// The settings that several rules come to.
#[derive(Clone)]
pub(crate) struct EffectiveSettings {
    pub(crate) settings: Arc<Settings>,
    pub(crate) policy: Arc<ResponsePolicy>,
    pub(crate) index_names: Arc<[String]>,
}

struct CompiledRule {
    /// The folder as canonical names begin.
    folder: Box<[u8]>,
    files: Option<GlobMatcher>,
    settings: Settings,
}

impl Rules {
    /// Compiles rules.
    pub(crate) fn compile(rules: &[Rule]) -> Result<Self, CatalogError> {
        let rules = rules.iter().map(CompiledRule::new).collect::<Result<_, _>>()?;
        Ok(Self { rules, effective: Mutex::default() })
    }

    /// Whether any rule has digests of files sent.
    pub(super) fn know_digests(&self) -> bool {
        self.rules.iter().any(|rule| rule.settings.digests == Some(true))
    }

    /// The settings of a file in a folder, or of the folder itself. The folder's name ends with a
    /// slash, or is empty for the topmost.
    pub(crate) fn effective(&self, folder: &[u8], file: Option<&[u8]>) -> EffectiveSettings {
        let holds: Box<[bool]> = self.rules.iter().map(|rule| rule.holds(folder, file)).collect();
        let mut known = self.effective.lock().unwrap_or_else(PoisonError::into_inner);
        let effective = known.entry(holds).or_insert_with_key(|holds| {
            let mut settings = Settings::default();
            for (rule, _) in self.rules.iter().zip(holds).filter(|&(_, &holds)| holds) {
                settings.overlay(&rule.settings);
            }
            EffectiveSettings::of(settings)
        });
        effective.clone()
    }
}

impl EffectiveSettings {
    fn of(settings: Settings) -> Self {
        let policy = ResponsePolicy::of(&settings).expect("the policy of each rule was made when it was compiled");
        let index_names = settings.index.clone().unwrap_or_else(|| vec![INDEX.to_owned()]);
        Self { settings: Arc::new(settings), policy: Arc::new(policy), index_names: index_names.into() }
    }
}

impl CompiledRule {
    fn new(rule: &Rule) -> Result<Self, CatalogError> {
        let files = rule.files.as_deref().map(compile_pattern).transpose().map_err(CatalogError::Pattern)?;
        ResponsePolicy::of(&rule.settings).map_err(CatalogError::Header)?;
        for pattern in rule.settings.listing_style.iter().flat_map(|style| &style.hide) {
            compile_pattern(pattern).map_err(CatalogError::Pattern)?;
        }
        let folder = rule.folder.as_deref().map_or(&b""[..], relative);
        Ok(Self { folder: folder.into(), files, settings: rule.settings.clone() })
    }

    fn holds(&self, folder: &[u8], file: Option<&[u8]>) -> bool {
        let holds_for_file = match (&self.files, file) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(pattern), Some(file)) => pattern.is_match(Path::new(OsStr::from_bytes(file))),
        };
        folder.starts_with(&self.folder) && holds_for_file
    }
}

impl Settings {
    /// Puts the settings of a later rule over these.
    fn overlay(&mut self, over: &Self) {
        // Without a list of them, a setting that is added and forgotten here would never hold.
        let Self { headers, cache_control, content_type, index, listing, listing_style, precompressed, digests, etag } =
            over;
        let is_replaced = |name: &str| headers.iter().any(|(over, _)| over.eq_ignore_ascii_case(name));
        self.headers.retain(|(name, _)| !is_replaced(name));
        self.headers.extend_from_slice(headers);
        overlay(&mut self.cache_control, cache_control);
        overlay(&mut self.content_type, content_type);
        overlay(&mut self.index, index);
        overlay(&mut self.listing, listing);
        overlay(&mut self.listing_style, listing_style);
        overlay(&mut self.precompressed, precompressed);
        overlay(&mut self.digests, digests);
        overlay(&mut self.etag, etag);
    }
}

fn overlay<T: Clone>(setting: &mut Option<T>, over: &Option<T>) {
    if let Some(over) = over {
        *setting = Some(over.clone());
    }
}

/// Compiles a pattern for the names of files: `*`, `?`, `[a-z]`, `{a,b}`.
pub(super) fn compile_pattern(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    globset::Glob::new(pattern).map(|glob| glob.compile_matcher())
}

/// A path of a site as canonical names begin with it.
pub(crate) fn relative(path: &str) -> &[u8] {
    path.strip_prefix('/').unwrap_or(path).as_bytes()
}
