/** Errors by kind: one class each, all of them `TurntreeError`. */

/** The base of every error of turntree. `kind` says which it is. */
export class TurntreeError extends Error {
  readonly kind: string = "internal";

  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The named thing does not exist. */
export class NotFound extends TurntreeError {
  override readonly kind = "not-found";
}

/** The snapshot was dropped by retention. */
export class Expired extends TurntreeError {
  override readonly kind = "expired";
}

/** The content was erased on purpose. */
export class Redacted extends TurntreeError {
  override readonly kind = "redacted";
}

/** An abbreviation names more than one thing. */
export class Ambiguous extends TurntreeError {
  override readonly kind = "ambiguous";
}

/** Another writer was faster: read again, and retry. */
export class Conflict extends TurntreeError {
  override readonly kind = "conflict";
}

/** Stored bytes do not verify. */
export class Corrupt extends TurntreeError {
  override readonly kind = "corrupt";
}

/** Another process holds the lock. */
export class Locked extends TurntreeError {
  override readonly kind = "locked";
}

/** This build cannot do that. */
export class Unsupported extends TurntreeError {
  override readonly kind = "unsupported";
}

/** A stated limit is exceeded. */
export class LimitExceeded extends TurntreeError {
  override readonly kind = "limit-exceeded";
}

/** An argument is invalid, or a store or transaction is closed. */
export class InvalidInput extends TurntreeError {
  override readonly kind = "invalid-input";
}

/** The store is encrypted, with another key or none given. */
export class Encrypted extends TurntreeError {
  override readonly kind = "encrypted";
}

/** The operating system refused. */
export class StoreIOError extends TurntreeError {
  override readonly kind = "io";
}

const CLASSES: Record<string, new (message: string) => TurntreeError> = {
  "not-found": NotFound,
  expired: Expired,
  redacted: Redacted,
  ambiguous: Ambiguous,
  conflict: Conflict,
  corrupt: Corrupt,
  locked: Locked,
  unsupported: Unsupported,
  "limit-exceeded": LimitExceeded,
  "invalid-input": InvalidInput,
  encrypted: Encrypted,
  io: StoreIOError,
  internal: TurntreeError,
};

/** The exception for what the native library threw: the kind stands in the first line of its message. */
export function errorOf(thrown: unknown): unknown {
  if (!(thrown instanceof Error)) return thrown;
  const at = thrown.message.indexOf("\n");
  const Class = at < 0 ? undefined : CLASSES[thrown.message.slice(0, at)];
  if (Class) return new Class(thrown.message.slice(at + 1));
  // A panic, which has no kind.
  return "code" in thrown && thrown.code === "GenericFailure" ? new TurntreeError(thrown.message) : thrown;
}
