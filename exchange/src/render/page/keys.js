// The dialog that lists the keys.

/** Shows the keys and what each does. */
function showKeys(/** @type {any[][]} */ keys) {
  fill(empty(byId("help")), {}, [h("form", { method: "dialog" }, h("h2", { id: "help-title", tabindex: -1, autofocus: true }, "Keys"),
    h("dl", {}, keys.map(([names, what]) => [h("dt", {}, names.split("  ").map((key) => h("kbd", {}, key))), h("dd", {}, what)])),
    h("p", { class: "quiet" }, `${ORIGIN} ${header.madeBy ? `Made by ${header.madeBy}.` : ""}`), h("button", {}, "Close"))]);
  byId("help").showModal();
}
