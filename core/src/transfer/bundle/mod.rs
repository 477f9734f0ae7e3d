//! Bundles: sessions in one verifiable file, for archives and for transfer to another store.
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
//! The intact part of a damaged bundle is also a bundle: [`Bundle::open_partial`].
//!
//! The manifest of a bundle lists its content and its prerequisites. A bundle made without the
//! ancestors of some commit is an increment; a store that lacks this commit refuses it. Expired
//! turns travel without their context, and grafts travel too. The bundle carries the operations
//! that changed its refs. They can be read from the bundle but not undone in the receiving store.
//! Policies do not travel. The same turns and operations produce the same bytes. The store defines
//! the layout of objects in the file ([`crate::store::BundleFile`]); `format-spec/bundle.md`
//! specifies the whole format.
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

mod ancestry;
mod check;
mod closure;
mod create;
mod log;
mod manifest;
mod operations;
mod partial;
mod request;
mod select;
mod substitute;
mod unbundle;

pub use check::{Bundle, BundleContents};
pub(super) use log::SentOperations;
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
