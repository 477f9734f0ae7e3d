// The reader: all turns of a branch one below the other, of which those near the window are there.

const GUESS = 150;
/** Pixels between the upper edge of the window and the turn that is read. */
const EDGE = 8;
/** Pixels above and below the window that are made: at once, and when there is time. */
const NEAR = 200;
const MARGIN = 900;

/** @typedef {{branch: Branch, items: number[], heights: Float64Array, tops: Float64Array, shown: Map<number, any>, box: any, first: number, last: number, kind: string, whole: boolean, isEnd: boolean}} Reader */

/** @type {Reader | null} */
let reader = null;

/** Makes a reader of some turns of a branch in `scroller`. */
function openReader(scroller, branch, items) {
  const box = h("div", { class: "reader" });
  reader = { branch, items, kind: outline.kind, heights: new Float64Array(items.length).fill(GUESS), tops: new Float64Array(items.length + 1), shown: new Map(), box, first: 0, last: -1, whole: false, isEnd: false };
  sumTops();
  // As high as it will be, so that any place in it can be scrolled to.
  box.style.height = `${reader.tops[items.length]}px`;
  scroller.replaceChildren(items.length ? box : h("p", { class: "quiet" }, "No turn of this kind."));
  return reader;
}

const closeReader = () => { reader = null; };

function sumTops(from = 0) {
  const { heights, tops } = reader;
  for (let at = from; at < heights.length; at += 1) tops[at + 1] = tops[at] + heights[at];
}

/** The item at a height. */
const itemAt = (/** @type {number} */ height) => lastFitting(reader.items.length, (item) => reader.tops[item] <= height);

/** Puts the turns there that are near the window, and leaves the one that is looked at where it is. */
function drawReader(margin = NEAR) {
  if (!reader || !reader.items.length || reader.whole) return;
  for (let round = 0; round < 6; round += 1) if (!placeTurns(margin)) break;
  clearTimeout(rest);
  if (margin < MARGIN) rest = setTimeout(() => drawReader(margin + 350), 60);
}

let rest = 0;

/** How far to scroll so that the end of an item is at the lower edge of the window. */
const endAt = (/** @type {number} */ item) => reader.box.offsetTop + reader.tops[item + 1] - view.clientHeight + 24;

function placeTurns(margin) {
  const { items, heights, tops, shown, box } = reader;
  const offset = view.scrollTop - box.offsetTop;
  // Where a turn is read, what ends above it must not push it away.
  const anchor = itemAt(Math.max(0, offset + EDGE + 1));
  const anchorTop = tops[anchor] - offset;
  const first = itemAt(Math.max(0, offset - margin));
  const last = itemAt(offset + view.clientHeight + margin);
  const wanted = items.slice(first, last + 1);
  const kept = new Set(wanted);
  for (const [turn, node] of shown) {
    if (node.isConnected && !kept.has(turn)) node.remove();
  }
  while (shown.size > 160) {
    const stale = [...shown.keys()].find((turn) => !kept.has(turn));
    if (stale === undefined) break;
    shown.delete(stale);
  }
  let before = null;
  for (const turn of wanted) {
    const node = blockOf(turn);
    if (before ? before.nextSibling !== node : box.firstChild !== node) before ? before.after(node) : box.prepend(node);
    before = node;
  }
  let changed = first !== reader.first || last !== reader.last;
  box.style.paddingTop = `${tops[first]}px`;
  for (let at = first; at <= last; at += 1) {
    const height = shown.get(items[at]).offsetHeight;
    if (Math.abs(height - heights[at]) > 0.5) {
      heights[at] = height;
      changed = true;
    }
  }
  Object.assign(reader, { first, last });
  if (!changed) return false;
  sumTops(first);
  box.style.height = `${tops[items.length]}px`;
  const target = reader.isEnd ? endAt(items.length - 1) : box.offsetTop + tops[anchor] - anchorTop;
  const { scrollTop } = view;
  if (Math.abs(target - scrollTop) > 0.5) view.scrollTop = target;
  // What the page moves by itself is no hand.
  moved = reader.isEnd ? view.scrollTop : moved + view.scrollTop - scrollTop;
  return true;
}

/** The block of a turn; throws `Absent`. */
function blockNow(turn) {
  const old = reader.shown.get(turn);
  if (old && !old.ariaBusy) return old;
  const node = turnBlock(reader.branch, turn);
  old?.replaceWith(node);
  reader.shown.set(turn, node);
  return node;
}

/** The block of a turn; until what it says has come, one that is as high. */
function blockOf(turn) {
  const mine = reader;
  const draw = () => {
    if (mine !== reader) return;
    blockNow(turn);
    drawReader();
  };
  const { shown, items, heights } = reader;
  if (shown.has(turn)) return shown.get(turn);
  const node = whenThere(() => blockNow(turn), draw);
  if (node) return node;
  const waiting = h("article", { class: "turn", "data-turn": turn, "aria-busy": "true" }, h("p", { class: "quiet" }, "\u2026"));
  waiting.style.minHeight = `${heights[items.indexOf(turn)]}px`;
  shown.set(turn, waiting);
  return waiting;
}

/** Brings a turn to the upper edge of the window, or the end of the last one to the lower. */
function readTurn(turn, { end = false } = {}) {
  const place = (/** @type {number} */ item) => reader.branch.places.get(item);
  let item = reader.items.indexOf(turn);
  if (item < 0) item = Math.max(0, reader.items.filter((other) => place(other) <= place(turn)).length - 1);
  for (let round = 0, before = -1; round < 6; round += 1) {
    const target = end ? endAt(item) : reader.box.offsetTop + reader.tops[item] - EDGE;
    if (target === before) break;
    view.scrollTop = before = target;
    drawReader();
  }
  return reader.shown.get(reader.items[item]);
}

const isAtEnd = () => view.scrollTop + view.clientHeight >= view.scrollHeight - 4;

/** The turn that is read: the one at the upper third of the window. */
function turnRead() {
  const offset = view.scrollTop - reader.box.offsetTop;
  return reader.items[isAtEnd() ? reader.items.length - 1 : itemAt(Math.max(0, offset + Math.min(120, view.clientHeight / 4)))];
}

/** Makes all turns, for paper. */
function finishReader() {
  if (!reader) return;
  const { items, box } = reader;
  box.replaceChildren(...items.map(blockOf));
  box.style.paddingTop = box.style.height = "";
  reader.whole = true;
}

/** Goes on as on a screen. */
function resumeReader() {
  if (!reader?.whole) return;
  Object.assign(reader, { whole: false, first: 0, last: -1 });
  readTurn(here.turn);
}
