// The beginning of a page that holds its data.

const ORIGIN = "Everything is in this file, and nothing is loaded.";

readEmbedded().then(start);
