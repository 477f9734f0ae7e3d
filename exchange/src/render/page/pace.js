// Work in slices, so that a browser draws and answers keys meanwhile.

/** Longest time, and most records, before others are let at work. */
const SLICE_MS = 8;
const SLICE_RECORDS = 1000;

/** Lets the browser draw and answer keys. */
const breathe = () => new Promise((kept) => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => kept(undefined);
  channel.port2.postMessage(0);
});

/** Work that is cut into slices: `if (slice.over()) await slice.rest()` behind each record. */
class Slice {
  constructor() {
    this.until = performance.now() + SLICE_MS;
    this.records = 0;
  }

  over() {
    this.records += 1;
    return this.records >= SLICE_RECORDS || performance.now() > this.until;
  }

  async rest() {
    await breathe();
    this.until = performance.now() + SLICE_MS;
    this.records = 0;
  }
}

/** Does all steps of some work, a slice after the other. */
async function inSlices(/** @type {Iterable<any>} */ steps) {
  const slice = new Slice();
  for (const _ of steps) if (slice.over()) await slice.rest();
}
