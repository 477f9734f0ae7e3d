//! turntree is git for what an agent knows: a content-addressed, versioned store for agent sessions.
//!
//! A **snapshot** is a commit that points to a tree of deduplicated blobs: messages, scratchpad and
//! memory entries, file contents, offloaded payloads. A **branch** is an explored strategy. Equal
//! content is stored once, a snapshot costs what changed in it, and any turn can be read, compared,
//! forked and restored.
//!
//! # The path of the data
//!
//! ```text
//!  transcript, framework, workspace
//!         |  exchange, workspace          bytes in, bytes out: a file comes back byte for byte
//!         v
//!  context      sections: agents, scratchpad, memory, files, source
//!         |  encode
//!         v
//!  tree         persistent list and map: O(log n) change, O(changes) diff
//!         |  nodes and blobs with ids
//!         v
//!  object       canonical CBOR, BLAKE3; no I/O
//!         |  one batch a commit, one fsync
//!         v
//!  store        journal segments -> packs; manifest; refs and operations in the same batch
//!         ^
//!  maintenance  retention, collections, fsck, redaction: plan, then apply
//! ```
//!
//! [`repo`] drives it: sessions, branches, revisions and transactions. Read the modules in the order
//! [`error`], [`object`], [`tree`], [`context`], [`store`], [`repo`], [`maintenance`], [`exchange`],
//! [`workspace`], [`agents`]: each uses only those before it. With the feature `git`, the module `git`
//! comes last.
//!
//! # One turn
//!
//! ```
//! use std::sync::Arc;
//!
//! use turntree::context::{Builder, MessageEntry, Role};
//! use turntree::object::{Kind, ObjectSink, Time};
//! use turntree::repo::{BranchName, Repository, Snapshot, Stamp};
//! use turntree::store::{NewStore, OpenOptions, RealIo};
//!
//! # let folder = tempfile::tempdir().map_err(|error| turntree::Error::io("make a folder", error))?;
//! # let dir = folder.path().join("store");
//! # let (store_id, writer_seed) = ([1; 16], [2; 16]);
//! // Clock, names and randomness come from the caller.
//! let stamp = Stamp { time: Time { micros: 1_700_000_000_000_000, offset_minutes: 0 }, actor: "me".into() };
//! let (io, new) = (Arc::new(RealIo), NewStore { id: store_id });
//! let repo = Repository::init(io, &dir, &new, OpenOptions::new(writer_seed))?;
//!
//! let branch = BranchName::main("refactoring")?;
//! let mut context = Builder::new();
//! let mut turn = repo.begin();
//! let blob = turn.write(Kind::Blob, r#"{"role":"user","content":"Split the parser"}"#.into())?;
//! let message = MessageEntry::new(blob, Role::User, "json");
//! context.push_message(&mut turn, "main", &message)?;
//! let tree = context.write(&mut turn)?;
//! turn.snapshot(&branch, Snapshot::new(tree, "the task", &stamp))?;
//! turn.finish(&stamp, "snapshot")?; // durable from here on
//!
//! let revision = repo.resolve("refactoring")?;
//! assert_eq!(repo.commit(&revision.commit)?.turn, 1);
//! # Ok::<(), turntree::Error>(())
//! ```

pub mod context;
pub mod error;
pub mod maintenance;
pub mod object;
pub mod repo;
pub mod store;
pub mod transfer;
pub mod tree;
pub mod workspace;

pub use error::{Error, ErrorKind, Result};
