//! Routing: which requests are redirected, and which are answered with another path of their site.
//!
//! Of the rules that hold for the requested path the last one decides, as for other settings; then
//! the mount with the longest path, then the site. A rewritten path is not routed again, so that no
//! set of rules can be a loop.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::GlobMatcher;

use crate::catalog::error::CatalogError;
use crate::catalog::rules::{compile_pattern, relative};
use crate::catalog::template::{Captures, Template};
use crate::config::{self, Rule, SiteConfig};
use crate::content::name::split;

/// The text of an asterisk where there is none.
const NOTHING: &[u8] = b"";

/// The routing of all sites, by their numbers.
pub(crate) struct Routings(Box<[SiteRouting]>);

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Routed {
    /// It goes on as it is.
    Unchanged,
    /// It is redirected with this status to the address that was written.
    Redirected(u16),
    /// It is answered with the name that was written.
    Rewritten,
    /// The name that it would be answered with is none.
    Nowhere,
}

struct SiteRouting {
    /// Of rules, the last one first.
    rules: Vec<RuleRouting>,
    /// All mounts, those with longer paths first.
    mounts: Vec<(Box<[u8]>, Option<Action>)>,
    site: Option<Action>,
}

struct RuleRouting {
    /// The folder as canonical names begin.
    folder: Box<[u8]>,
    files: Option<Pattern>,
    action: Action,
}

/// A pattern of file names, and the text around its asterisk if that is its only wildcard.
struct Pattern {
    matcher: GlobMatcher,
    around: Option<[Box<[u8]>; 2]>,
}

enum Action {
    Redirect { address: Template, status: u16 },
    Rewrite(Template),
}

impl Routings {
    /// The routing of sites; `None` if no request is routed.
    pub(crate) fn compile(sites: &[SiteConfig]) -> Result<Option<Self>, CatalogError> {
        let sites = sites.iter().map(SiteRouting::compile).collect::<Result<Box<[_]>, _>>()?;
        Ok(sites.iter().any(SiteRouting::routes).then_some(Self(sites)))
    }

    /// Routes a request for a canonical name of a site, and writes the address or the name that it
    /// is sent to.
    pub(crate) fn route(&self, site: usize, name: &[u8], query: Option<&[u8]>, out: &mut Vec<u8>) -> Routed {
        out.clear();
        let Some((action, path, star)) = self.0[site].action(name) else { return Routed::Unchanged };
        let captures = Captures { path, star, query };
        match action {
            Action::Redirect { address, status } => {
                address.write_address(captures, out);
                Routed::Redirected(*status)
            }
            Action::Rewrite(path) if path.write_name(captures, out) => Routed::Rewritten,
            Action::Rewrite(_) => Routed::Nowhere,
        }
    }
}

impl SiteRouting {
    fn compile(config: &SiteConfig) -> Result<Self, CatalogError> {
        let rules = config.rules.iter().rev().filter_map(|rule| RuleRouting::compile(rule).transpose());
        let rules = rules.collect::<Result<_, _>>()?;
        let mounts = config.mounts.iter();
        let mounts = mounts.map(|mount| Ok((relative(&mount.path).into(), Action::compile(&mount.routing, false)?)));
        let mut mounts: Vec<(Box<[u8]>, _)> = mounts.collect::<Result<_, CatalogError>>()?;
        mounts.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Ok(Self { rules, mounts, site: Action::compile(&config.routing, false)? })
    }

    fn routes(&self) -> bool {
        !self.rules.is_empty() || self.site.is_some() || self.mounts.iter().any(|(_, action)| action.is_some())
    }

    /// The action for a name, with the path and the characters that its template takes in.
    fn action<'s, 'n>(&'s self, name: &'n [u8]) -> Option<(&'s Action, &'n [u8], &'n [u8])> {
        let name = if name == b"/" { b"" } else { name };
        let (folder, file) = split(name);
        for rule in &self.rules {
            let Some(path) = rule.path_of(name, folder) else { continue };
            match &rule.files {
                None => return Some((&rule.action, path, NOTHING)),
                Some(pattern) if !file.is_empty() && pattern.is_match(file) => {
                    return Some((&rule.action, path, pattern.star_of(file)));
                }
                Some(_) => {}
            }
        }
        let mount = self.mounts.iter().find_map(|(prefix, action)| Some((action, beneath(name, prefix)?)));
        match mount {
            Some((Some(action), path)) => Some((action, path, NOTHING)),
            _ => self.site.as_ref().map(|action| (action, name, NOTHING)),
        }
    }
}

/// The rest of a name that leads to a folder, or into it.
fn beneath<'n>(name: &'n [u8], folder: &[u8]) -> Option<&'n [u8]> {
    let is_folder = !folder.is_empty() && folder.strip_suffix(b"/") == Some(name);
    if is_folder { Some(b"") } else { name.strip_prefix(folder) }
}

impl RuleRouting {
    fn compile(rule: &Rule) -> Result<Option<Self>, CatalogError> {
        let files = rule.files.as_deref().map(Pattern::compile).transpose()?;
        let has_star = files.as_ref().is_some_and(|pattern| pattern.around.is_some());
        let Some(action) = Action::compile(&rule.routing, has_star)? else { return Ok(None) };
        let folder = rule.folder.as_deref().map_or(&b""[..], relative).into();
        Ok(Some(Self { folder, files, action }))
    }

    /// The rest of a name in the rule's folder. A rule for all files is for the folder's own name
    /// without its slash too.
    fn path_of<'n>(&self, name: &'n [u8], folder: &[u8]) -> Option<&'n [u8]> {
        match self.files {
            None => beneath(name, &self.folder),
            Some(_) => folder.starts_with(&self.folder).then(|| &name[self.folder.len()..]),
        }
    }
}

impl Pattern {
    fn compile(text: &str) -> Result<Self, CatalogError> {
        let matcher = compile_pattern(text).map_err(CatalogError::Pattern)?;
        let around = around_star(text).map(|(before, behind)| [before, behind].map(|text| text.as_bytes().into()));
        Ok(Self { matcher, around })
    }

    fn is_match(&self, file: &[u8]) -> bool {
        self.matcher.is_match(Path::new(OsStr::from_bytes(file)))
    }

    /// The characters of a name that matches which the asterisk stands for.
    fn star_of<'n>(&self, file: &'n [u8]) -> &'n [u8] {
        let star =
            self.around.as_ref().and_then(|[before, behind]| file.strip_prefix(&**before)?.strip_suffix(&**behind));
        star.unwrap_or_default()
    }
}

/// The text before and behind the asterisk of a pattern; `None` if it has another wildcard, or has
/// none.
pub(super) fn around_star(pattern: &str) -> Option<(&str, &str)> {
    let (before, behind) = pattern.split_once('*')?;
    let is_plain = |text: &str| !text.contains(['*', '?', '[', ']', '{', '}', '\\', '!']);
    (is_plain(before) && is_plain(behind)).then_some((before, behind))
}

impl Action {
    fn compile(routing: &config::Routing, has_star: bool) -> Result<Option<Self>, CatalogError> {
        let compile = || match (&routing.redirect, &routing.rewrite) {
            (Some(redirect), _) => {
                let address = Template::address(redirect, has_star)?;
                let status = routing.redirect_status.unwrap_or(config::Routing::STATUS);
                Ok(Some(Self::Redirect { address, status }))
            }
            (None, Some(path)) => Template::path(path, has_star).map(|path| Some(Self::Rewrite(path))),
            (None, None) => Ok(None),
        };
        compile().map_err(CatalogError::Routing)
    }
}

/// The faults of the routing of a site, a mount or a rule, each with the name of its value.
/// `folder` and `files` are those of what it belongs to.
pub(super) fn faults(routing: &config::Routing, folder: &str, files: Option<&str>) -> Vec<(&'static str, String)> {
    let mut faults = Vec::new();
    let has_star = files.is_some_and(|files| around_star(files).is_some());
    if let Some(redirect) = &routing.redirect {
        match Template::address(redirect, has_star) {
            Err(what) => faults.push(("redirect", what)),
            // Every redirect would lead to the next.
            Ok(address) if files.is_none() && address.beginning().starts_with(folder) => {
                let what = format!(
                    "{redirect:?} leads back to {folder:?}, which it redirects; clients would go round in circles"
                );
                faults.push(("redirect", what));
            }
            Ok(_) => {}
        }
    }
    if let Some(Err(what)) = routing.rewrite.as_deref().map(|path| Template::path(path, has_star)) {
        faults.push(("rewrite", what));
    }
    if routing.redirect.is_some() && routing.rewrite.is_some() {
        faults.push(("rewrite", "a request is either redirected or rewritten; remove redirect or rewrite".into()));
    }
    match routing.redirect_status {
        Some(_) if routing.redirect.is_none() => {
            faults.push(("redirect_status", "there is no redirect; set redirect, or remove the status".into()));
        }
        Some(status) if !config::Routing::STATUSES.contains(&status) => {
            let what = format!("{status} is not the status of a redirect; expected 301, 302, 303, 307 or 308");
            faults.push(("redirect_status", what));
        }
        _ => {}
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{MountConfig, Routing};

    fn redirect(to: &str) -> Routing {
        Routing { redirect: Some(to.to_owned()), ..Routing::default() }
    }

    fn rewrite(to: &str) -> Routing {
        Routing { rewrite: Some(to.to_owned()), ..Routing::default() }
    }

    fn rule(folder: Option<&str>, files: Option<&str>, routing: Routing) -> Rule {
        Rule { folder: folder.map(str::to_owned), files: files.map(str::to_owned), routing, ..Rule::default() }
    }

    fn site(rules: Vec<Rule>) -> SiteConfig {
        SiteConfig { rules, ..SiteConfig::new("/") }
    }

    #[track_caller]
    fn check(site: &SiteConfig, name: &str, expected: (Routed, &str)) {
        let routings = Routings::compile(std::slice::from_ref(site)).unwrap().expect("something is routed");
        let mut out = b"left over".to_vec();
        let routed = routings.route(0, name.as_bytes(), Some(b"q"), &mut out);
        assert_eq!((routed, String::from_utf8(out).unwrap().as_str()), expected, "{name}");
    }

    #[test]
    fn nothing_is_routed_without_a_rule_for_it() {
        assert!(Routings::compile(&[SiteConfig::new("/")]).unwrap().is_none());
        let site = site(vec![rule(Some("/old/"), None, redirect("/new/{path}"))]);
        for name in ["/", "a", "older/a", "new/old/a"] {
            check(&site, name, (Routed::Unchanged, ""));
        }
    }

    #[test]
    fn folders_and_patterns() {
        let site = site(vec![
            rule(Some("/old/"), None, redirect("https://h/{path}{query}")),
            rule(None, Some("*.htm"), rewrite("/{folder}{*}.html")),
            rule(Some("/old/keep/"), None, rewrite("/kept/{path}")),
        ]);
        check(&site, "old/", (Routed::Redirected(302), "https://h/?q"));
        check(&site, "old", (Routed::Redirected(302), "https://h/?q"));
        check(&site, "old/a/b", (Routed::Redirected(302), "https://h/a/b?q"));
        check(&site, "old/keep/b", (Routed::Rewritten, "kept/b"));
        check(&site, "old/keep", (Routed::Rewritten, "kept/"));
        check(&site, "x/y/a.htm", (Routed::Rewritten, "x/y/a.html"));
        check(&site, "a.htm", (Routed::Rewritten, "a.html"));
        check(&site, ".htm", (Routed::Rewritten, ".html"));
        check(&site, "a.htm/", (Routed::Unchanged, ""));
    }

    #[test]
    fn a_rewrite_cannot_climb() {
        let site = site(vec![rule(None, Some("up*"), rewrite("/a/{*}/b"))]);
        check(&site, "upx", (Routed::Rewritten, "a/x/b"));
        check(&site, "up..", (Routed::Nowhere, "a/../b"));
        check(&site, "up", (Routed::Nowhere, "a//b"));
    }

    #[test]
    fn the_longest_mount_decides_then_the_site() {
        let mut site = site(Vec::new());
        site.routing = Routing { redirect_status: Some(308), ..redirect("https://all/{path}") };
        let moved = |path: &str, to: &str| MountConfig { routing: redirect(to), ..MountConfig::new(path, "") };
        site.mounts.push(moved("/m/", "https://m/{path}"));
        site.mounts.push(moved("/m/deep/", "https://deep/{path}"));
        check(&site, "a", (Routed::Redirected(308), "https://all/a"));
        check(&site, "/", (Routed::Redirected(308), "https://all/"));
        check(&site, "m/a", (Routed::Redirected(302), "https://m/a"));
        check(&site, "m/deep/a", (Routed::Redirected(302), "https://deep/a"));
        site.routing = Routing::default();
        site.mounts.push(MountConfig::new("/m/kept/", "/"));
        check(&site, "m/kept/a", (Routed::Unchanged, ""));
    }

    #[test]
    fn faults_name_their_value() {
        #[track_caller]
        fn check(routing: &Routing, files: Option<&str>, expected: &[(&str, &str)]) {
            let faults = faults(routing, "/old/", files);
            let places: Vec<_> = faults.iter().map(|(at, _)| *at).collect();
            assert_eq!(places, expected.iter().map(|(at, _)| *at).collect::<Vec<_>>(), "{faults:?}");
            for ((_, what), (_, part)) in faults.iter().zip(expected) {
                assert!(what.contains(part), "{what}");
            }
        }
        check(&Routing::default(), None, &[]);
        check(&redirect("/new/{path}"), None, &[]);
        check(&redirect("/old/new/{path}"), None, &[("redirect", "circles")]);
        check(&redirect("/old/{*}.html"), Some("*.htm"), &[]);
        check(&redirect("/{*}"), Some("*.{htm,html}"), &[("redirect", "needs a rule")]);
        check(&redirect("new"), None, &[("redirect", "not an address")]);
        check(&rewrite("new"), None, &[("rewrite", "not a path")]);
        check(&Routing { redirect: Some("/n/".into()), ..rewrite("/n/") }, None, &[("rewrite", "either")]);
        check(&Routing { redirect_status: Some(301), ..rewrite("/n/") }, None, &[("redirect_status", "no redirect")]);
        check(&Routing { redirect_status: Some(200), ..redirect("/n/") }, None, &[("redirect_status", "308")]);
        for status in Routing::STATUSES {
            check(&Routing { redirect_status: Some(status), ..redirect("/n/") }, None, &[]);
        }
    }
}
