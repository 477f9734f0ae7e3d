// The branches as a picture: steps go to the right, a lane a branch, bars in the colour of what was done.

const LANE = 30;
const LEFT = 14;
const BAR = 3;

/** @type {any} */
const map = { box: byId("map"), at: null };

const color = (branch) => `lane-${branch.index % 8}`;

/** How far along its branch a turn is; numbers of turns jump at merges. */
const depthOf = (turn) => branches[owner.get(turn)].places.get(turn);

const nameOf = (branch) => (branch.name.length > 26 ? `${branch.name.slice(0, 25)}\u2026` : branch.name);

function drawMap() {
  const width = Math.max(300, map.box.clientWidth);
  const names = Math.min(200, Math.max(...branches.map((branch) => nameOf(branch).length)) * 7.2 + 26);
  const last = Math.max(1, ...branches.map((branch) => branch.line.length - 1));
  const span = width - LEFT - names;
  const x = (turn) => LEFT + (depthOf(turn) / last) * span;
  const lanes = lanesOf(x);
  const y = (branch) => lanes[branch.index] * LANE + 22;
  const height = (Math.max(...lanes) + 1) * LANE + 18;
  const place = (turn) => ({ x: x(turn), y: y(branches[owner.get(turn)]) });
  const parts = branches.map((branch) => laneOf(branch, { x, y, place }));
  const labels = branches.map((branch) => s("text", { class: color(branch), x: tipOf(branch, x) + 11, y: y(branch) + 4 }, nameOf(branch)));
  const cursor = s("circle", { class: "cursor", r: 6.5 });
  const picture = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "slider", "aria-label": "Turns of the branches", "aria-valuemin": 1, "aria-valuemax": last + 1 }, parts, labels, cursor);
  Object.assign(map, { picture, cursor, place, x, y, hint: h("div", { class: "hint", hidden: true }) });
  picture.addEventListener("click", (event) => openTurn(...nearest(event)));
  picture.addEventListener("mousemove", (event) => hint(...nearest(event)));
  picture.addEventListener("mouseleave", () => { map.hint.hidden = true; });
  map.box.replaceChildren(h("div", { class: "scroll" }, picture), map.hint);
  if (map.at) markMap(...map.at);
}

const tipOf = (branch, x) => x(branch.own.length ? branch.own.at(-1) : branch.fork);

/** A lane for each branch: one that has ended leaves its own to the next that begins behind it. */
function lanesOf(x) {
  const ends = [];
  return branches.map((branch) => {
    const start = x(branch.own.length ? branch.own[0] : branch.fork) - 24;
    const end = tipOf(branch, x) + nameOf(branch).length * 7.2 + 24;
    const free = branch.index === 0 ? -1 : ends.findIndex((until, lane) => lane > 0 && until < start);
    const lane = free < 0 ? ends.length : free;
    ends[lane] = end;
    return lane;
  });
}

const HEIGHTS = { prompt: 14, turned: 12, error: 11, passed: 11, edit: 8, other: 4 };
const RANKS = Object.keys(HEIGHTS);

function laneOf(branch, { x, y, place }) {
  const level = y(branch);
  const own = branch.own;
  const slots = new Map();
  for (const turn of own) {
    const slot = Math.round(x(turn) / BAR) * BAR;
    const kind = kindOf(turns[turn]);
    if (!slots.has(slot) || RANKS.indexOf(kind) < RANKS.indexOf(slots.get(slot))) slots.set(slot, kind);
  }
  const start = own.length ? x(own[0]) : x(branch.fork);
  const end = own.length ? x(own.at(-1)) : start;
  const room = own.length > 1 ? (end - start) / (own.length - 1) : 8;
  const thick = Math.max(1.8, Math.min(7, room * 0.4)).toFixed(1);
  const bars = (kind) => s("path", { class: `bars ${kind}`, "stroke-width": thick, d: [...slots].filter(([, one]) => one === kind).map(([at]) => `M${at} ${level - 3}v${-HEIGHTS[kind]}`).join("") });
  const parts = RANKS.filter((kind) => [...slots.values()].includes(kind)).map(bars);
  if (branch.fork !== undefined) {
    const from = place(branch.fork);
    const bend = Math.min(18, Math.max(6, (start - from.x) / 2));
    parts.push(s("path", { class: "line", d: `M${from.x} ${from.y}C${from.x + bend} ${from.y} ${from.x} ${level} ${Math.max(start, from.x + bend)} ${level}` }));
    parts.push(s("circle", { class: "fork", cx: from.x, cy: from.y, r: 3 }));
  }
  parts.push(s("path", { class: "line", d: `M${start} ${level}H${end}` }));
  for (const turn of own) {
    for (const parent of turns[turn].parents.slice(1)) {
      const from = place(parent);
      parts.push(s("path", { class: "line joined", d: `M${from.x} ${from.y}C${x(turn)} ${from.y} ${from.x} ${level} ${x(turn)} ${level}` }));
    }
    if (MARKED.has(turns[turn].trigger)) parts.push(s("circle", { class: `event ${turns[turn].trigger}`, cx: x(turn), cy: level, r: 3.4 }));
  }
  parts.push(s("circle", { class: "tip", cx: Math.max(end, start), cy: level, r: 4 }));
  return s("g", { class: `lane ${color(branch)}` }, parts);
}

/** Turns that are more than one step further. */
const MARKED = new Set(["compaction", "rollback", "merge", "before-restore"]);

/** The branch and turn nearest to a pointer. */
function nearest(event) {
  const box = map.picture.getBoundingClientRect();
  const [px, py] = [event.clientX - box.left, event.clientY - box.top];
  const apart = (branch) => Math.abs(map.y(branch) - py) + Math.max(0, map.x(branch.own[0] ?? branch.fork) - px, px - tipOf(branch, map.x)) / 8;
  const branch = branches.reduce((best, other) => (apart(other) < apart(best) ? other : best));
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
  const { x, y } = map.place(turn);
  map.cursor.setAttribute("cx", x);
  map.cursor.setAttribute("cy", y);
  map.cursor.setAttribute("class", `cursor ${color(branches[owner.get(turn)])}`);
  map.picture.setAttribute("aria-valuenow", depthOf(turn) + 1);
  map.picture.setAttribute("aria-valuetext", visible(`turn ${turns[turn].turn} on ${branch.name}: ${titleOf(turns[turn], 160)}`));
  const scroll = map.picture.parentNode;
  if (y < scroll.scrollTop + LANE / 2) scroll.scrollTop = y - LANE;
  else if (y > scroll.scrollTop + scroll.clientHeight - LANE / 2) scroll.scrollTop = y - scroll.clientHeight + LANE;
}
