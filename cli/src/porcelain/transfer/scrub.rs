//! Scrubbing: a copy of sessions with masks instead of secrets, in a temporary store.
//!
//! The sessions are copied into a store in a directory readable by the user only, and redacted
//! there. The store is deleted when the command ends. So the copy has whole conversations with
//! masks, in every encoding that a redaction finds, and the original store does not change. The
//! same secrets give the same copy, so bundles and repositories can be extended later.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use turntree::Error;
use turntree::local::{create_repository, open_encrypted, random_bytes};
use turntree::maintenance::{Pattern, redact};
use turntree::object::{ObjectId, RefValue};
use turntree::repo::{BranchName, Repository};
use turntree::store::{Expected, Io, IoFile, RealIo, Tier, enciphered};
use turntree::transfer::bundle::{Bundle, BundleRequest, UnbundleOptions, plan_bundle, unbundle};
use turntree_exchange::{SecretFinding, mask_of};

use crate::porcelain::read::revision::resolve;
use crate::porcelain::read::secrets::{everything, open_in_copy, scan, still_found};
use crate::program::invocation::stamp;
use crate::program::store_keys::new_key;
use crate::view::error::Result;
use crate::view::progress::Working;

/// The prefix of the tags that map original commits to copied ones.
const TAGS: &str = "refs/tags/turntree-scrub-";

/// How often the copy is remade with the secrets found in the last one.
const MAX_ROUNDS: usize = 4;

/// A copy of sessions without secrets.
pub(crate) struct Scrubbed {
    repo: Repository,
    commits: HashMap<ObjectId, ObjectId>,
    /// Dropping it deletes the copy.
    _folder: tempfile::TempDir,
}

impl Scrubbed {
    /// A copy like [`Scrubbed::of`], in which a scan finds no secret that is not allowed in `repo`.
    ///
    /// # Errors
    /// The errors of [`Scrubbed::of`] and of a scan, and `InvalidInput` if secrets are
    /// still found after some rounds: such a copy must not be sent.
    pub(crate) fn verified(
        repo: &Repository,
        wanted: &[BundleRequest],
        others: &[ObjectId],
        findings: &[SecretFinding],
    ) -> Result<Self> {
        let mut masked = findings.to_vec();
        let mut left = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let copy = Self::of(repo, wanted, others, &masked)?;
            left = open_in_copy(repo, &scan(&copy.repo, &everything(&copy.repo))?)?;
            if left.is_empty() {
                return Ok(copy);
            }
            masked.append(&mut left.clone());
        }
        Err(still_found(&left))
    }

    /// Copies `wanted` with all ancestors, and redacts the findings in the copy. `others` are
    /// commits in it whose copies are needed too.
    ///
    /// # Errors
    /// The errors of a bundle and of a redaction.
    pub(crate) fn of(
        repo: &Repository,
        wanted: &[BundleRequest],
        others: &[ObjectId],
        findings: &[SecretFinding],
    ) -> Result<Self> {
        let _working = Working::new("masking secrets");
        let failed = |error| Error::io("make a folder for the copy without secrets", error);
        let folder = tempfile::tempdir().map_err(failed)?;
        let copy = new_copy(&folder.path().join("store"), repo)?;
        let stamp = stamp()?;
        let file: Arc<dyn IoFile> = {
            let path = folder.path().join("copy");
            let failed = |error| Error::io("make a file for the copy without secrets", error);
            let file = RealIo.create(&path).map_err(failed)?;
            RealIo.remove(&path).map_err(failed)?;
            match repo.store().keys() {
                Some(_) => enciphered(file, new_key()?, random_bytes()),
                None => file,
            }
        };
        plan_bundle(repo, wanted, &[])?.write(repo, Tier::Hot, &file)?;
        let bundle = Bundle::open(Arc::new(Arc::clone(&file)))?;
        let options = UnbundleOptions { max_bytes: Some(u64::MAX), ..UnbundleOptions::default() };
        unbundle(&copy, &bundle, &options, &stamp)?;

        let mut named: Vec<ObjectId> = others.to_vec();
        named.extend(wanted.iter().filter_map(|wanted| match wanted {
            BundleRequest::Commit(id) | BundleRequest::BranchAt(_, id) => Some(*id),
            BundleRequest::Session(_) | BundleRequest::Branch(_) => None,
        }));
        named.sort_unstable();
        named.dedup();
        let mut change = copy.begin();
        for (number, id) in named.iter().enumerate() {
            let value = Some(RefValue::Object(*id));
            change.set_ref(&format!("{TAGS}{number}"), Expected::Absent, value);
        }
        change.commit(&stamp, "scrub")?;
        let masks = findings.iter().map(|it| (it.value.as_str(), mask_of(it.rule)));
        redact(&copy, &Pattern::literals(masks)?, &stamp)?;
        let mut commits = HashMap::new();
        let mut change = copy.begin();
        for (number, old) in named.into_iter().enumerate() {
            let name = format!("{TAGS}{number}");
            if let Some(RefValue::Object(new)) = copy.refs().value(&name) {
                commits.insert(old, *new);
                let expected = Expected::Value(RefValue::Object(*new));
                change.set_ref(&name, expected, None);
            }
        }
        change.commit(&stamp, "scrub")?;
        Ok(Self { repo: copy, commits, _folder: folder })
    }

    /// The store with the copy.
    pub(crate) fn repo(&self) -> &Repository {
        &self.repo
    }

    /// The copy of a commit.
    pub(crate) fn commit(&self, id: &ObjectId) -> ObjectId {
        self.commits.get(id).copied().unwrap_or(*id)
    }

    /// The same request for the copy.
    pub(crate) fn request(&self, wanted: &BundleRequest) -> BundleRequest {
        match wanted {
            BundleRequest::Commit(id) => BundleRequest::Commit(self.commit(id)),
            BundleRequest::BranchAt(name, id) => {
                BundleRequest::BranchAt(name.clone(), self.commit(id))
            }
            other => other.clone(),
        }
    }
}

/// Resolves a name on the command line; a session comes first.
///
/// # Errors
/// `NotFound` if nothing has that name.
pub(crate) fn wanted(repo: &Repository, name: &str) -> Result<BundleRequest> {
    if repo.has_session(name) {
        return Ok(BundleRequest::Session(name.to_owned()));
    }
    let revision = resolve(repo, name)?;
    Ok(revision.branch.map_or(BundleRequest::Commit(revision.commit), BundleRequest::Branch))
}

/// The commits of requests, with their branches.
pub(crate) fn tips(
    repo: &Repository,
    wanted: &[BundleRequest],
) -> Vec<(ObjectId, Option<BranchName>)> {
    let branches = repo.branches();
    let of = |wanted: &BundleRequest| -> Vec<(ObjectId, Option<BranchName>)> {
        match wanted {
            BundleRequest::Commit(id) => vec![(*id, None)],
            BundleRequest::BranchAt(name, id) => vec![(*id, Some(name.clone()))],
            BundleRequest::Branch(name) => {
                repo.tip(name).map(|tip| (tip, Some(name.clone()))).into_iter().collect()
            }
            BundleRequest::Session(session) => branches
                .iter()
                .filter(|(name, _)| name.session() == session)
                .map(|(name, tip)| (*tip, Some(name.clone())))
                .collect(),
        }
    };
    wanted.iter().flat_map(of).collect()
}

/// Creates a store for a copy of content of `repo`; encrypted with a temporary key if `repo` is
/// encrypted.
fn new_copy(dir: &Path, repo: &Repository) -> Result<Repository> {
    let copy = create_repository(dir)?;
    if repo.store().keys().is_none() {
        return Ok(copy);
    }
    let key = new_key()?;
    copy.store().change_encryption(Some(key), random_bytes())?;
    Ok(open_encrypted(dir, key.into())?)
}
