// Search of a page that is served: the server looks, and tells what it finds as it finds it.

/** The kinds of hits by role; other places are sections of files, notes and state. */
const ROLE_KINDS = { user: "prompts", assistant: "answers", tool: "results" };

const searching = { stop: new AbortController() };

/** Asks for the places that hold some words, in one session or, without a name, in all. */
async function searchServer(/** @type {string} */ words, /** @type {string | null} */ session, found) {
  searching.stop.abort();
  searching.stop = new AbortController();
  const where = session === null ? "" : `&session=${encodeURIComponent(session)}`;
  const answer = await ask(`/api/search?q=${encodeURIComponent(words)}${where}`, searching.stop.signal);
  for await (const line of eachLine(answer)) found(JSON.parse(line));
}

/** Where words begin in a line that has them. */
const placeOf = (/** @type {string} */ text, /** @type {string} */ words) => Math.max(0, text.toLowerCase().indexOf(words.toLowerCase()));

/** Searches the session of this page; the parts of a page that hold their data have the same. */
async function searchAll(words, goesOn, found, told) {
  const late = [];
  const put = (place) => {
    const turn = numbers.t.get(place.id);
    if (turn === undefined && older) late.push(place);
    if (!goesOn() || turn === undefined || search.hits.length >= MOST_HITS) return;
    const kind = place.path.includes("/messages/") ? ROLE_KINDS[place.role] || "other" : "files";
    for (const text of place.lines) found({ kind, line: kind === "files" ? "x" : "m", number: null, turn, where: place.path, text, place: placeOf(text, words) });
    told(false);
  };
  try {
    await searchServer(words, nameOfSession(), put);
    // In turns that are still to come.
    if (late.length) await older?.come;
    late.forEach(put);
  } catch (error) {
    if (error.name !== "AbortError") sayState(error.message);
  }
  if (goesOn()) told(true);
}
