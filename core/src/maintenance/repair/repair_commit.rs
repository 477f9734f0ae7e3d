//! Commits the changes of refs by a repair: one operation, with a reason.

use crate::error::{Error, ErrorKind, Result};
use crate::object::{Object, ObjectId};
use crate::repo::Signature;
use crate::store::{OperationDraft, RefUpdate, Store};

pub(in crate::maintenance) fn commit(
    store: &Store,
    objects: Vec<(ObjectId, Object)>,
    changes: Vec<RefUpdate>,
    joins: Vec<ObjectId>,
    reason: &str,
    stamp: &Signature,
) -> Result<()> {
    let draft = OperationDraft {
        time_micros: stamp.time.micros,
        actor: stamp.actor.clone(),
        reason: reason.to_owned(),
        changes,
        undoes: None,
        joins,
    };
    match store.commit(objects, &draft) {
        Err(error) if error.kind() == ErrorKind::Conflict => {
            let message = "a ref was changed during the repair: run it again";
            Err(Error::new(ErrorKind::Conflict, message).with_source(error))
        }
        committed => committed.map(drop),
    }
}
