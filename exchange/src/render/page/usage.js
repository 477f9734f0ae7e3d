// What all sessions took: tokens and costs, by day as a picture, and by agent, model and session.

/** Days from which weeks are drawn, and the height of the picture. */
const MOST_DAYS = 100;
const CHART = 150;

const DAY_MS = 86400e3;

const usageBy = (/** @type {string} */ by) => askJson(`/api/usage?by=${by}`);

/** Numbers of all sessions, in a row. */
function usageTiles(total) {
  const cached = total.input > 0 && `${Math.round((100 * total.cache_read) / total.input)} % from a cache`;
  return [tile(total.cost_usd === null ? "\u2013" : dollars(total.cost_usd) + (total.unpriced_tokens ? "+" : ""), "cost", total.unpriced_tokens > 0 && `${short(total.unpriced_tokens)} tokens without a price`),
    tile(short(total.input), "tokens in", cached), tile(short(total.output), "tokens out"), tile(total.answers.toLocaleString("en"), "answers")];
}

/** Costs by day as bars, by week where there are many days: `[time, name, cost]`. */
function costSteps(rows) {
  const at = (row) => Date.parse(`${row.name}T00:00:00Z`);
  const days = rows.filter((row) => !Number.isNaN(at(row)));
  if (!days.length) return [];
  const [first, last] = [at(days[0]), at(days.at(-1))];
  const unit = (last - first) / DAY_MS > MOST_DAYS ? 7 : 1;
  const start = first - (unit === 7 ? ((new Date(first).getUTCDay() + 6) % 7) * DAY_MS : 0);
  const steps = [];
  for (let time = start; time <= last; time += unit * DAY_MS) steps.push([time, `${unit === 7 ? "week of " : ""}${new Date(time).toISOString().slice(0, 10)}`, 0]);
  for (const row of days) steps[Math.floor((at(row) - start) / DAY_MS / unit)][2] += row.cost_usd || 0;
  return steps;
}

/** The picture of costs; what it shows stands in the table below it, too. */
function costChart(steps) {
  const width = Math.max(280, Math.min(1200, view.clientWidth - 20));
  const most = Math.max(...steps.map(([, , cost]) => cost));
  const room = (width - 50) / steps.length;
  const y = (cost) => CHART - 22 - (cost / most) * (CHART - 40);
  const line = (cost) => [s("path", { class: "grid", d: `M0 ${y(cost)}H${width}` }), s("text", { x: width, y: y(cost) - 4, class: "end" }, dollars(cost))];
  const month = (time) => new Date(time).toLocaleDateString("en", { month: "short", timeZone: "UTC" });
  let until = -60;
  const names = steps.map(([time], at) => {
    const isNew = at === 0 || month(time) !== month(steps[at - 1][0]);
    if (!isNew || at * room < until + 44) return null;
    until = at * room;
    return s("text", { x: until, y: CHART - 6 }, month(time));
  });
  const bars = steps.map(([, name, cost], at) => cost > 0 && s("g", {}, s("title", {}, `${name}: ${dollars(cost)}`),
    s("rect", { x: at * room, y: y(cost), width: Math.max(2, Math.min(28, room * 0.8)), height: CHART - 22 - y(cost), rx: 1.5 })));
  return s("svg", { class: "chart", width, height: CHART, viewBox: `0 0 ${width} ${CHART}`, role: "img", "aria-label": `Costs of ${steps[0][1]} to ${steps.at(-1)[1]}, at most ${dollars(most)}` }, line(most), line(most / 2), bars, names);
}

/** Answers of the last year by day, as squares in columns of weeks; the table has the days, too. */
function activityChart(rows) {
  const answers = new Map(rows.map((row) => [row.name, row.answers]));
  const last = Date.parse(`${rows.at(-1).name}T00:00:00Z`);
  if (Number.isNaN(last)) return null;
  const start = last - (52 * 7 + new Date(last).getUTCDay()) * DAY_MS;
  const most = Math.log1p(Math.max(...answers.values()));
  const squares = [];
  for (let time = start; time <= last; time += DAY_MS) {
    const [day, at] = [new Date(time).toISOString().slice(0, 10), Math.round((time - start) / DAY_MS)];
    const shade = 0.1 + (0.9 * Math.log1p(answers.get(day) ?? 0)) / most;
    squares.push(s("rect", { x: Math.floor(at / 7) * 14, y: (at % 7) * 14, width: 12, height: 12, rx: 2, "fill-opacity": shade.toFixed(2) }, s("title", {}, `${day}: ${plural(answers.get(day) ?? 0, "answer")}`)));
  }
  const words = `Answers by day in the year until ${rows.at(-1).name}`;
  return h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": words }, chart(53 * 14, 7 * 14, words, squares));
}

const cachedOf = (row) => (row.input > 0 ? ` \u00b7 ${short(row.input)} in, ${Math.round((100 * row.cache_read) / row.input)} % cached` : "");

/** Rows as bars, the most expensive first. */
function usageRows(rows, link = (row) => row.name || "\u2013", more = (/** @type {any} */ _row) => "") {
  const ordered = rows.filter((row) => row.answers > 0).sort((a, b) => (b.cost_usd ?? 0) - (a.cost_usd ?? 0) || b.input - a.input);
  const most = ordered[0]?.cost_usd || 1;
  return lazily(ordered, (some) => some.map((row) => h("p", { class: "tool-line" }, h("span", {}, link(row)), h("span", { class: "bar" }, row.cost_usd > 0 && h("span", { "width%": (100 * row.cost_usd) / most })),
    h("span", {}, row.cost_usd === null ? `${short(row.input + row.output)} tokens` : dollars(row.cost_usd), more(row)))), 15);
}

screens.usage = () => pageOf("Usage", null, async () => {
  const [days, agents, models, sessions] = await Promise.all(["day", "agent", "model", "session"].map(usageBy));
  if (!days.total.answers) return h("p", { class: "quiet" }, "No session records its tokens.");
  const steps = costSteps(days.rows);
  const most = Math.max(0, ...steps.map(([, , cost]) => cost));
  const table = () => numberTable("Costs", ["day", "answers", "tokens in", "tokens out", "cost"], days.rows.toReversed().map((row) => [row.name, row.answers.toLocaleString("en"), short(row.input), short(row.output), row.cost_usd === null ? "\u2013" : dollars(row.cost_usd)]));
  return [h("div", { class: "tiles" }, usageTiles(days.total)),
    part(steps[0]?.[1].startsWith("week") ? "Cost by week" : "Cost by day", null, most > 0 && costChart(steps), activityChart(days.rows), fold({ class: "file" }, ["As a table"], table)),
    h("div", { class: "beside" }, part("By agent", null, usageRows(agents.rows)), part("By model", null, usageRows(models.rows, undefined, cachedOf))),
    part("By session", null, usageRows(sessions.rows, (row) => h("a", { href: addressOf(row.name) }, row.title || row.name))),
    h("p", { class: "quiet" }, `List prices of ${days.prices.date}, where a transcript records no cost.`)];
});

/** The numbers of all sessions above their list, which leads to more. */
async function drawStrip(/** @type {HTMLElement} */ strip) {
  const { total } = await usageBy("agent");
  strip.hidden = !total.answers;
  fill(empty(strip), {}, usageTiles(total));
}
