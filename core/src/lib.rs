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
//!  what an agent says, its workspace  (transcripts of others: the crate turntree-exchange)
//!         |  local, workspace             bytes in, bytes out: a file comes back byte for byte
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
//! [`error`], [`platform`], [`object`], [`tree`], [`context`], [`store`], [`repo`], [`maintenance`], [`workspace`],
//! [`transfer`], [`local`]: each uses only those before it.
//!
//! # A session, three names
//!
//! [`local`] is the entry point: [`Repo`](local::Repo), [`Session`](local::Session) and
//! [`Snapshot`](local::Snapshot) hold a reference to their store, and use the clock, randomness and
//! disk of the system. All lower layers receive these as arguments.
//!
//! ```
//! use turntree::context::Role;
//! use turntree::local::Repo;
//!
//! # let folder = tempfile::tempdir().map_err(|error| turntree::Error::io("make a folder", error))?;
//! # let dir = folder.path();
//! let repo = Repo::open_or_create(dir.join(".turntree"))?;
//! let session = repo.session("refactoring")?;
//!
//! let mut turn = session.turn()?; // continues the newest snapshot
//! turn.push_message("main", Role::User, r#"{"role":"user","content":"Split the parser"}"#)?;
//! turn.set("scratchpad/plan", "read the tests")?;
//! let first = turn.commit("the task")?; // durable from here on
//!
//! let plan_b = session.fork("plan-b", &first)?; // nothing is copied
//! assert_eq!(plan_b.newest()?.map(|snapshot| snapshot.turn()), Some(1));
//! assert_eq!(repo.snapshot("refactoring")?.text("scratchpad/plan")?, "read the tests");
//! # Ok::<(), turntree::Error>(())
//! ```

pub mod context;
pub mod error;
pub mod local;
pub mod maintenance;
pub mod object;
pub mod platform;
pub mod repo;
pub mod store;
pub mod transfer;
pub mod tree;
pub mod workspace;

pub use error::{Error, ErrorKind, Result};
