// What is about the whole store: the operation log, and storage with pins.

const MOST_OPERATIONS = 100;

const KINDS_OF_REFS = { heads: "", tags: "tag ", pins: "pin " };

/** The name of a ref as people say it. */
const refName = (/** @type {string} */ name) => name.replace(/^refs\/(heads|tags|pins)\//, (_, kind) => KINDS_OF_REFS[kind]);

const shortValue = (/** @type {string | null} */ value) => (value === null ? "\u2013" : value.startsWith("ref:") ? refName(value.slice(4)) : value.slice(0, 8));

/** A ref with what it was and is; a branch leads to its session. */
function refLine({ ref, old, new: now }) {
  const branch = /^refs\/heads\/([^/]+)\/(.+)$/.exec(ref);
  const to = branch && `${addressOf(branch[1])}#overview${branch[2] === "main" ? "" : `@${encodeURIComponent(branch[2])}`}`;
  return h("p", { class: "file-line" }, to ? h("a", { class: "path", href: to }, refName(ref)) : h("span", { class: "path" }, refName(ref)),
    h("code", {}, `${shortValue(old)} \u2192 ${shortValue(now)}`));
}

function operationLine(one) {
  const look = `turntree log --at-op ${one.operation}`;
  const undo = () => screens.plan({ kind: "undo", operation: one.operation, files: true });
  const inside = () => [h("p", { class: "doors" }, h("small", {}, "Copy: "), copyButton("id", one.id, "Copy the id"), copyButton("log", look, `Copy: ${look}`),
    one.in_force && allowsChanges() && h("button", { type: "button", class: "copy", on: { click: undo } }, "Undo\u2026")), one.changes.map(refLine)];
  const about = [h("b", {}, one.operation), h("span", { class: "what" }, one.reason), !one.in_force && h("small", {}, "taken back"), h("small", {}, one.actor), h("time", { datetime: one.time, title: one.time }, ago(one.time))];
  return h("div", { class: one.in_force ? "operation" : "operation undone", "data-operation": one.operation }, fold({}, about, inside));
}

screens.operations = () => pageOf("Operations", null, async () => {
  const box = h("div", {});
  const more = h("p", {});
  const read = async (before) => {
    const found = [];
    for await (const line of eachLine(await ask(`/api/operations?n=${MOST_OPERATIONS}${before ? `&before=${before}` : ""}`))) found.push(JSON.parse(line));
    box.append(...found.map(operationLine));
    more.replaceChildren(...(found.length < MOST_OPERATIONS ? [] : [moreButton("Show older ones", () => read(found.at(-1).operation))]));
  };
  await read(null);
  return [box.childElementCount ? box : h("p", { class: "quiet" }, "Nothing was changed yet."), more];
});

function pinLine(pin) {
  const place = pin.session === null ? h("span", { class: "path" }, pin.pin) : h("a", { class: "path", href: `${addressOf(pin.session)}#turn-${pin.turn}` }, pin.pin);
  const facts = [pin.session && `turn ${pin.turn} of ${pin.session}`, pin.reason, pin.expires && `${pin.expired ? "expired" : "expires"} ${dayOf(Date.parse(pin.expires))}`].filter(Boolean);
  const command = `turntree unpin ${shellWord(pin.pin)}`;
  return h("p", { class: "file-line", "data-pin": pin.pin }, place, h("small", {}, joined(facts)), copyButton("unpin", command, `Copy: ${command}`),
    allowsChanges() && h("button", { type: "button", class: "copy", on: { click: () => screens.plan({ kind: "unpin", name: pin.pin }) } }, "Unpin\u2026"));
}

screens.storage = () => pageOf("Storage", null, async () => {
  const found = await askJson("/api/storage");
  const sessions = found.sessions.sort((a, b) => b.total.stored_bytes - a.total.stored_bytes);
  const sum = (of) => sessions.reduce((total, session) => total + of(session), 0);
  const [stored, full] = [sum((session) => session.total.stored_bytes), sum((session) => session.full_bytes)];
  const onDisk = found.files.reduce((total, file) => total + file.bytes, found.parity_bytes);
  const [garbage, expiring] = [found.garbage, found.expiring];
  const sections = new Map();
  for (const session of sessions) for (const [name, usage] of Object.entries(session.sections)) sections.set(name, (sections.get(name) || 0) + usage.stored_bytes);
  const most = [...sections].sort(([, a], [, b]) => b - a).slice(0, 30);
  const link = (session) => h("a", { href: addressOf(session) }, session);
  const rowOfSession = (one) => [link(one.session), one.turns, one.elided, bytes(one.total.raw_bytes), bytes(one.total.stored_bytes), bytes(one.full_bytes)];
  return [
    h("div", { class: "tiles" }, tile(bytes(onDisk), "on disk", found.parity_bytes > 0 && `${bytes(found.parity_bytes)} parity`), tile(plural(sum((session) => session.turns), "turn"), plural(sessions.length, "session")),
      tile(bytes(full), "as full copies", stored > 0 && `${Math.round(full / stored)} times what is stored`), tile(bytes(garbage.bytes + expiring.bytes), "gc would free", plural(garbage.objects + expiring.objects, "object"))),
    part("Pins", String(found.pins.length), found.pins.length ? lazily(found.pins, (some) => some.map(pinLine)) : h("p", { class: "quiet" }, "No turn is pinned.")),
    sessions.length > 0 && part("Sessions", String(sessions.length), lazily(sessions, (some) => numberTable("Sessions", ["session", "turns", "expired", "content", "stored", "full copies"], some.map(rowOfSession)), 100)),
    most.length > 0 && part("Sections", null, numberTable("Sections", ["section", "stored"], most.map(([name, size]) => [name, bytes(size)]))),
    found.largest.length > 0 && part("Largest objects", null, numberTable("Largest objects", ["place", "session", "content", "stored"], found.largest.map((one) => [one.path, link(one.session), bytes(one.raw_bytes), bytes(one.stored_bytes)]))),
  ];
});
