// The branches as a picture: time goes to the right, one lane a branch, bars for what turns did.

const LANE = 30;
const LEFT = 14;
const BAR = 3;

const map = { box: byId("map"), at: null };

const color = (branch) => `lane-${branch.index % 8}`;

function drawMap() {
  const width = Math.max(320, map.box.clientWidth);
  const names = Math.min(200, Math.max(...branches.map((branch) => branch.name.length)) * 7.2 + 26);
  const height = branches.length * LANE + 18;
  const numbers = branches.flatMap((branch) => [turns[branch.line[0]].turn, turns[branch.line.at(-1)].turn]);
  const [first, last] = [Math.min(...numbers), Math.max(...numbers)];
  const span = width - LEFT - names;
  const x = (turn) => LEFT + (last === first ? 0 : ((turns[turn].turn - first) / (last - first)) * span);
  const y = (branch) => branch.index * LANE + 22;
  const place = (turn) => ({ x: x(turn), y: y(branches[owner.get(turn)]) });
  const most = Math.log1p(Math.max(...tallies.map(weight), 1));
  const parts = branches.map((branch) => lane(branch, { x, y, place, most }));
  const cursor = s("circle", { class: "cursor", r: 6.5 });
  const picture = s("svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "slider",
    "aria-label": "Turns of the branches", "aria-valuemin": first, "aria-valuemax": last,
  }, parts, cursor);
  Object.assign(map, { picture, cursor, place, x, y, hint: h("div", { class: "hint", hidden: true }) });
  picture.addEventListener("click", (event) => openTurn(...nearest(event)));
  picture.addEventListener("mousemove", (event) => hint(...nearest(event)));
  picture.addEventListener("mouseleave", () => { map.hint.hidden = true; });
  map.box.replaceChildren(h("div", { class: "scroll" }, picture), map.hint);
  if (map.at) markMap(...map.at);
}

const weight = (sum) => sum.added + 3 * sum.files + sum.notes;

function lane(branch, { x, y, place, most }) {
  const level = y(branch);
  const own = branch.own;
  const bars = new Map();
  for (const turn of own) {
    const slot = Math.round(x(turn) / BAR) * BAR;
    bars.set(slot, Math.max(bars.get(slot) || 0, weight(tallies[turn])));
  }
  const bar = ([at, sum]) => `M${at} ${level - 3}v${-(1 + (14 * Math.log1p(sum)) / most).toFixed(1)}`;
  const start = own.length ? x(own[0]) : x(branch.fork);
  const end = own.length ? x(own.at(-1)) : start;
  const room = own.length > 1 ? (end - start) / (own.length - 1) : 8;
  const thick = Math.max(1.8, Math.min(7, room * 0.4)).toFixed(1);
  const parts = [s("path", { class: "bars", "stroke-width": thick, d: [...bars].map(bar).join("") })];
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
    if (MARKED.has(turns[turn].trigger)) {
      parts.push(s("circle", { class: `event ${turns[turn].trigger}`, cx: x(turn), cy: level, r: 3.4 }));
    }
  }
  parts.push(s("circle", { class: "tip", cx: Math.max(end, start), cy: level, r: 4 }));
  parts.push(s("text", { x: Math.max(end, start) + 11, y: level + 4 }, branch.name.length > 26 ? `${branch.name.slice(0, 25)}\u2026` : branch.name));
  return s("g", { class: `lane ${color(branch)}` }, parts);
}

/** Turns that are more than one step further. */
const MARKED = new Set(["compaction", "rollback", "merge", "before-restore"]);

/** The branch and turn nearest to a pointer. */
function nearest(event) {
  const box = map.picture.getBoundingClientRect();
  const [px, py] = [event.clientX - box.left, event.clientY - box.top];
  const row = Math.max(0, Math.min(branches.length - 1, Math.round((py - 16) / LANE)));
  const branch = branches[row];
  const line = branch.own.length ? branch.own : branch.line;
  let best = line[0];
  for (const turn of line) if (Math.abs(map.x(turn) - px) < Math.abs(map.x(best) - px)) best = turn;
  return [branch, best];
}

function hint(branch, turn) {
  const { x, y } = map.place(turn);
  const scrolled = map.picture.parentNode.scrollLeft;
  map.hint.replaceChildren(h("b", {}, `${turns[turn].turn}`), ` ${firstLine(turns[turn].message, 90) || turns[turn].trigger}`);
  map.hint.hidden = false;
  map.hint.style.left = `${Math.max(8, Math.min(x - scrolled - 20, map.box.clientWidth - 380))}px`;
  map.hint.style.top = `${y + 14}px`;
}

/** Shows where we are. */
function markMap(branch, turn) {
  map.at = [branch, turn];
  const { x, y } = map.place(turn);
  map.cursor.setAttribute("cx", x);
  map.cursor.setAttribute("cy", y);
  map.cursor.setAttribute("class", `cursor ${color(branches[owner.get(turn)])}`);
  map.picture.setAttribute("aria-valuenow", turns[turn].turn);
  map.picture.setAttribute("aria-valuetext", visible(`turn ${turns[turn].turn} on ${branch.name}: ${firstLine(turns[turn].message)}`));
}
