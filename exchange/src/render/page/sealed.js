// The beginning of a page whose data is encrypted. Its key stands behind the `#` of the address, which browsers send to no server.

const ORIGIN = "Everything is in this file, encrypted with the key in its address, and nothing is loaded.";

const waiting = byId("sealed");

/** Says why the page is not open, and takes a key; the address of the key is tried, too, when it comes. */
function refuse(/** @type {string} */ why) {
  const field = h("input", { "aria-label": "Key", placeholder: "#key=\u2026", autocomplete: "off", spellcheck: "false", autofocus: true });
  const given = (/** @type {Event} */ event) => {
    event.preventDefault();
    location.hash = `key=${field.value.trim().split("key=").at(-1)}`;
  };
  fill(empty(waiting), { role: "alert" }, [why, h("form", { on: { submit: given } }, field, h("button", {}, "Open"))]);
  performance.mark("turntree-shown");
  addEventListener("hashchange", () => tryToOpen(), { once: true });
}

/** Opens every block, so that a page that is shown is whole and as it was written. */
async function unseal() {
  const [, words = "", rest = ""] = /^#key=([\w-]*)&?(.*)$/.exec(location.hash) ?? [];
  if (!words) throw new Error("This page is encrypted, and its address needs the key behind it: #key= and 43 characters.");
  if (!crypto.subtle) throw new Error("Browsers decrypt on https, on localhost and from a file, but not on this address.");
  const isKey = words.length === 43;
  const raw = isKey ? bytesOf(`${words.replaceAll("-", "+").replaceAll("_", "/")}=`) : new Uint8Array();
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", raw)).slice(0, 16);
  const isRight = [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("") === waiting.dataset.key;
  if (!isKey || !isRight) throw new Error("The key in the address is not the key of this page: perhaps it was cut, or the file was replaced.");
  if (!byId("complete")) throw new Error("This file is incomplete: load or copy it again.");
  const key = await crypto.subtle.importKey("raw", raw, "AES-GCM", false, ["decrypt"]);
  /** @type {NodeListOf<any>} */
  const nodes = document.querySelectorAll(".sealed");
  for (const [at, node] of nodes.entries()) {
    const iv = new DataView(new ArrayBuffer(12));
    iv.setUint32(4, at);
    iv.setUint32(8, Number(at === nodes.length - 1));
    try {
      const block = new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv }, key, bytesOf(node.textContent)));
      const end = block.indexOf(10);
      for (const [, name, number] of new TextDecoder().decode(block.subarray(0, end)).matchAll(/data-(\w)="(\d+)"/g)) node.dataset[name] = number;
      node.packed = block.subarray(end + 1);
    } catch {
      throw new Error(`This file is damaged: part ${at + 1} of ${nodes.length} is not as it was written. Load or copy it again.`);
    }
    empty(node).className = "data";
    node.dataset.deflate = "";
  }
  pageKey = `key=${words}&`;
  setHash(`#${rest}`);
}

async function tryToOpen() {
  try {
    await unseal();
  } catch (error) {
    return refuse(error.message);
  }
  waiting.remove();
  // A link that is opened elsewhere takes the key along.
  document.addEventListener("pointerdown", ({ target }) => {
    const link = /** @type {Element} */ (target).closest("a");
    if (link?.hash && link.pathname === location.pathname) link.setAttribute("href", keyed(link.hash));
  }, true);
  await readEmbedded();
  start();
}

document.addEventListener("DOMContentLoaded", tryToOpen);
