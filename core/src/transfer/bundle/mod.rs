//! Bundles: sessions in one file that verifies, to keep or to carry elsewhere.
//!
//! ```text
//! refs ── commits ── contexts ── nodes and blobs      plan_bundle, BundlePlan::create
//!                        |
//!                        v
//!  | manifest: text | ids outside | operations | objects, compressed together | table | footer |
//!                        |
//!                        v
//!          every byte, id, link and ref verified      Bundle::verify
//!                        |
//!                        v
//!       objects that are new ── refs, one operation   plan_unbundle, unbundle
//! ```
//!
//! What is whole in a damaged bundle is a bundle too: [`Bundle::open_partial`].
//!
//! A bundle says in its manifest what is in it, and what it requires: one that was made without what
//! another commit leads to is an increment, and a store without that commit refuses it. Turns whose
//! context was dropped travel as such, and so do grafts. The operations that made its refs what they
//! are can be read in it and never undone elsewhere; policies stay where they are.
//! The same turns and operations make the same bytes. How the objects lie in the file is for the store to say
//! ([`crate::store::BundleFile`]); the whole is specified in `format-spec/bundle.md`.
//!
//! ```
//! use turntree::transfer::bundle::{Bundle, UnbundleOptions, BundleRequest, plan_bundle, unbundle};
//! # use std::sync::Arc;
//! # use turntree::object::Time;
//! # use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft};
//! # use turntree::store::{Io, NewStore, OpenOptions, RealIo, Tier};
//! # let folder = tempfile::tempdir().map_err(|error| turntree::Error::io("make a folder", error))?;
//! # let stamp = Signature { time: Time::default(), actor: "me".into() };
//! # let make = |name: &str| {
//! #     let (io, new) = (Arc::new(RealIo), NewStore { id: [1; 16] });
//! #     Repository::init(io, &folder.path().join(name), &new, OpenOptions::new([2; 16]))
//! # };
//! # let (repo, other) = (make("here")?, make("there")?);
//! # let mut change = repo.begin();
//! # let mut context = turntree::context::Builder::new();
//! # context.set_entry(&mut change, "scratchpad", "plan", Some("keep this".into()))?;
//! # let tree = context.write(&mut change)?;
//! # let id = change.snapshot(&BranchName::main("demo")?, SnapshotDraft::new(tree, "turn", &stamp))?;
//! # change.commit(&stamp, "snapshot")?;
//! let path = folder.path().join("demo.bundle");
//! let file = RealIo.create(&path).map_err(|error| turntree::Error::io("make a file", error))?;
//! let plan = plan_bundle(&repo, &[BundleRequest::Session("demo".into())], &[])?;
//! plan.write(&repo, Tier::Archive, &file)?;
//!
//! let bundle = Bundle::open(Arc::new(file))?;
//! unbundle(&other, &bundle, &UnbundleOptions::default(), &stamp)?;
//! assert_eq!(other.resolve("demo")?.commit, id);
//! # Ok::<(), turntree::Error>(())
//! ```

mod check;
mod closure;
mod create;
mod log;
mod manifest;
mod operations;
mod partial;
mod reach;
mod request;
mod select;
mod substitute;
mod unbundle;

pub use check::{Bundle, BundleContents};
pub(super) use log::ToldBefore;
pub(super) use manifest::utc;
pub use manifest::{
    BundledLabels, BundledRef, BundledSession, Counts, Graft, Manifest, Prerequisite, TextId,
};
pub use operations::{BundledChange, BundledOperation, Held};
pub use partial::{BundleLosses, LostRef};
pub use request::BundleRequest;
pub(super) use select::plan_increment;
pub use select::{BundlePlan, plan_bundle};
pub(super) use unbundle::stage_labels;
pub use unbundle::{
    PlannedLabels, PlannedRef, RefFate, UnbundleOptions, UnbundlePlan, Unbundled, plan_unbundle,
    unbundle,
};
