// The branches as a picture: steps go to the right, a lane a branch, bars in the colour of what was done.

const LANE = 30;
const LEFT = 14;
const BAR = 3;

/** The maximum number of lanes until the user shows all: other branches are stubs. */
const MOST_LANES = 8;

/** @type {any} */
const map = { box: byId("map"), at: null, stubs: new Set(), whole: false, height: 0 };

/** The branches without a lane of their own: all but those on which something was done last. */
function stubsOf() {
  const last = (branch) => turns[branch.line.at(-1)].at;
  const others = branches.filter((branch) => branch.index > 0 && branch !== here.branch);
  return new Set(others.sort((a, b) => last(b) - last(a)).slice(MOST_LANES - 2));
}

const color = (branch) => `lane-${branch.index % 8}`;

/** How far along its branch a turn is; numbers of turns jump at merges. */
const depthOf = (turn) => branches[owner[turn]].places.get(turn);

const nameOf = (branch) => cutAt(branch.name, 26);

/** The part of the width for what is before the first fork, at most: strategies need the room. */
const KNEE = 0.4;

/** How far to the right a turn at a depth stands, from 0 to 1. */
function scaleOf(/** @type {number} */ last) {
  const forks = branches.flatMap((branch) => (branch.fork === undefined ? [] : [depthOf(branch.fork)]));
  const first = Math.min(last, ...forks);
  const knee = first === last ? 1 : Math.min(KNEE, first / last);
  return (/** @type {number} */ depth) => (depth <= first ? knee * (depth / first || 0) : knee + (1 - knee) * ((depth - first) / (last - first)));
}

function drawMap() {
  const width = Math.max(300, map.box.clientWidth);
  const names = Math.min(200, Math.max(...branches.map((branch) => nameOf(branch).length)) * 7.2 + 26);
  const last = Math.max(1, ...branches.map((branch) => branch.line.length - 1));
  const span = width - LEFT - names;
  const scale = scaleOf(last);
  const x = (turn) => LEFT + scale(depthOf(turn)) * span;
  map.stubs = new Set();
  let lanes = lanesOf(x);
  if (!map.whole && Math.max(...lanes) >= MOST_LANES) {
    map.stubs = stubsOf();
    lanes = lanesOf(x);
  }
  const y = (branch) => lanes[branch.index] * LANE + 26;
  const height = (Math.max(...lanes) + 1) * LANE + 14;
  const place = (turn) => ({ x: x(turn), y: y(branches[owner[turn]]) });
  const drawn = branches.filter((branch) => !map.stubs.has(branch));
  const parts = drawn.map((branch) => laneOf(branch, { x, y, place }));
  const stubs = stubsAt(x, y);
  const labels = drawn.map((branch) => s("text", { class: color(branch), x: tipOf(branch, x) + 11, y: y(branch) + 4 }, nameOf(branch)));
  const cursor = s("circle", { class: "cursor", r: 6.5 });
  const picture = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "slider", "aria-label": "Turns of the branches", "aria-valuemin": 1, "aria-valuemax": last + 1 }, parts, stubs, labels, cursor);
  Object.assign(map, { picture, cursor, place, x, y, hint: h("div", { class: "hint", hidden: true }) });
  picture.addEventListener("click", (event) => openTurn(...nearest(event)));
  picture.addEventListener("mousemove", (event) => hint(...nearest(event)));
  picture.addEventListener("mouseleave", () => { map.hint.hidden = true; });
  map.scroll = h("div", { class: "scroll" }, picture);
  map.box.replaceChildren(map.scroll, map.hint, gripOf(height));
  if (map.at) markMap(...map.at);
}

const tipOf = (branch, x) => x(branch.own.length ? branch.own.at(-1) : branch.fork);

/** A lane for each branch: one that has ended leaves its own to the next that begins behind it. */
function lanesOf(x) {
  const ends = [];
  const lanes = [];
  branches.forEach((branch) => {
    if (map.stubs.has(branch)) return lanes.push(lanes[owner[branch.fork]] ?? 0);
    const start = x(branch.own.length ? branch.own[0] : branch.fork) - 24;
    const end = tipOf(branch, x) + nameOf(branch).length * 7.2 + 24;
    const free = branch.index === 0 ? -1 : ends.findIndex((until, lane) => lane > 0 && until < start);
    const lane = free < 0 ? ends.length : free;
    ends[lane] = end;
    return lanes.push(lane);
  });
  return lanes;
}

/** Pixels along a lane in which stubs are one. */
const STUB = 56;

/** What is left of branches without a lane, where they begin: how many turns, of how many branches. */
function stubsAt(x, y) {
  const places = new Map();
  for (const branch of map.stubs) {
    const at = x(branch.fork ?? branch.line[0]);
    const key = `${y(branch)}/${Math.floor(at / STUB)}`;
    const stub = places.get(key) || { at, end: at, level: y(branch), turns: 0, branches: 0 };
    stub.end = Math.max(stub.end, tipOf(branch, x));
    stub.turns += branch.own.length;
    stub.branches += 1;
    places.set(key, stub);
  }
  const unfold = (event) => { event.stopPropagation(); map.whole = true; drawMap(); };
  return [...places.values()].map(({ at, end, level, turns: number, branches: several }) => s("g", { class: "stub", on: { click: unfold } },
    s("title", {}, `${plural(number, "turn")} on ${plural(several, "branch", "branches")}: show them`),
    s("path", { class: "rest", d: `M${at} ${level}H${end}` }), s("circle", { cx: at, cy: level, r: 3.5 }), s("text", { x: at, y: level + 15 }, `+${number}${several > 1 ? ` \u00d7${several}` : ""}`)));
}

/** The height that the picture has without being asked, as far as it is as high; and the least. */
const usual = () => Math.min(232, innerHeight * 0.3);
const LEAST = 44;

/** What makes the picture higher or lower: it is dragged, or moved by arrows. */
function gripOf(height) {
  const most = Math.max(height, LEAST);
  const show = (to) => {
    const shown = Math.round(Math.max(LEAST, Math.min(most, to)));
    map.scroll.style.maxHeight = `${shown}px`;
    grip.setAttribute("aria-valuenow", shown);
  };
  const set = (to) => show(map.height = to);
  const grip = h("div", { class: "grip", role: "separator", tabindex: 0, "aria-orientation": "horizontal", "aria-label": "Height of the picture", "aria-valuemin": LEAST, "aria-valuemax": most, hidden: height <= usual(), on: {
    pointerdown: (event) => {
      event.preventDefault();
      grip.setPointerCapture(event.pointerId);
      grip.from = event.clientY - map.scroll.clientHeight;
    },
    pointermove: (event) => grip.hasPointerCapture(event.pointerId) && set(event.clientY - grip.from),
    keydown: (event) => {
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      event.preventDefault();
      event.stopPropagation();
      set(map.scroll.clientHeight + (event.key === "ArrowDown" ? LANE : -LANE));
    },
  } });
  show(map.height || usual());
  return grip;
}

const HEIGHTS = { prompt: 14, turned: 12, error: 11, passed: 11, edit: 8, other: 4 };
const RANKS = Object.keys(HEIGHTS);

function laneOf(branch, { x, y, place }) {
  const level = y(branch);
  const own = branch.own;
  /** By slot: the strongest of the turns that share it. */
  const slots = /** @type {number[]} */ ([]);
  const start = own.length ? x(own[0]) : x(branch.fork);
  const end = own.length ? x(own.at(-1)) : start;
  const room = own.length > 1 ? (end - start) / (own.length - 1) : 8;
  let passed = /** @type {boolean | undefined} */ (undefined);
  own.forEach((turn) => {
    const slot = Math.round(x(turn) / BAR);
    const rank = RANKS.indexOf(kindOf(turns[turn]));
    if (!(slots[slot] <= rank)) slots[slot] = rank;
    for (const check of checksOf(turns[turn])) passed = check[1];
  });
  const thick = Math.max(1.8, Math.min(7, room * 0.4)).toFixed(1);
  const strokes = RANKS.map(() => "");
  slots.forEach((rank, slot) => { strokes[rank] += `M${slot * BAR} ${level - 3}v${-HEIGHTS[RANKS[rank]]}`; });
  const bars = (d, rank) => d && s("path", { class: `bars ${RANKS[rank]}`, "stroke-width": thick, d });
  const parts = strokes.map(bars);
  if (branch.fork !== undefined) {
    const from = place(branch.fork);
    const bend = Math.min(18, Math.max(6, (start - from.x) / 2));
    parts.push(s("path", { class: "line", d: `M${from.x} ${from.y}C${from.x + bend} ${from.y} ${from.x} ${level} ${Math.max(start, Math.min(from.x + bend, end))} ${level}` }));
    parts.push(s("circle", { class: "fork", cx: from.x, cy: from.y, r: 3 }));
  }
  parts.push(s("path", { class: "line", d: `M${start} ${level}H${end}` }));
  for (const turn of own) {
    const { parents } = turns[turn];
    for (let at = 1; at < parents.length; at += 1) {
      const from = place(parents[at]);
      parts.push(s("path", { class: "line joined", d: `M${from.x} ${from.y}C${x(turn)} ${from.y} ${from.x} ${level} ${x(turn)} ${level}` }));
    }
    if (MARKED.has(turns[turn].trigger)) parts.push(s("circle", { class: `event ${turns[turn].trigger}`, cx: x(turn), cy: level, r: 3.4 }));
  }
  const outcome = passed === undefined ? "" : passed ? " passed" : " failed";
  parts.push(s("circle", { class: `tip${outcome}`, cx: Math.max(end, start), cy: level, r: 4 }));
  return s("g", { class: `lane ${color(branch)}` }, parts);
}

/** Turns that are more than one step further. */
const MARKED = new Set(["compaction", "rollback", "merge", "before-restore"]);

/** The branch and turn nearest to a pointer. */
function nearest(event) {
  const box = map.picture.getBoundingClientRect();
  const [px, py] = [event.clientX - box.left, event.clientY - box.top];
  const apart = (branch) => Math.abs(map.y(branch) - py) + Math.max(0, map.x(branch.own[0] ?? branch.fork) - px, px - tipOf(branch, map.x)) / 8;
  const branch = branches.filter((one) => !map.stubs.has(one)).reduce((best, other) => (apart(other) < apart(best) ? other : best));
  const line = branch.own.length ? branch.own : branch.line;
  let best = line[0];
  for (const turn of line) if (Math.abs(map.x(turn) - px) < Math.abs(map.x(best) - px)) best = turn;
  return /** @type {[Branch, number]} */ ([branch, best]);
}

const titleOf = (turn, most) => firstLine(turn.message, most) || turn.trigger;

function hint(branch, turn) {
  const { x, y } = map.place(turn);
  const { scrollLeft, scrollTop } = map.picture.parentNode;
  map.hint.replaceChildren(h("b", {}, `${turns[turn].turn}`), visible(` ${titleOf(turns[turn], 90)}`));
  map.hint.hidden = false;
  map.hint.style.left = `${Math.max(8, Math.min(x - scrollLeft - 20, map.box.clientWidth - 380))}px`;
  map.hint.style.top = `${y - scrollTop + 14}px`;
}

/** Shows where we are. */
function markMap(branch, turn) {
  map.at = [branch, turn];
  if (!map.picture) return;
  if (map.stubs.has(branch)) return drawMap();
  const { x, y } = map.place(turn);
  map.cursor.setAttribute("cx", x);
  map.cursor.setAttribute("cy", y);
  map.cursor.setAttribute("class", `cursor ${color(branches[owner[turn]])}`);
  map.picture.setAttribute("aria-valuenow", depthOf(turn) + 1);
  map.picture.setAttribute("aria-valuetext", visible(`turn ${turns[turn].turn} on ${branch.name}: ${titleOf(turns[turn], 160)}`));
  const scroll = map.picture.parentNode;
  if (y < scroll.scrollTop + LANE / 2) scroll.scrollTop = y - LANE;
  else if (y > scroll.scrollTop + scroll.clientHeight - LANE / 2) scroll.scrollTop = y - scroll.clientHeight + LANE;
}
