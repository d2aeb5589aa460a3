/* Settings: this session, the theme, and what this program is made of. */

import { get, path, send, session } from "./api.js";
import { notice } from "./dialog.js";
import { fill, h, name } from "./dom.js";
import { bytes, duration, fullTime, whole } from "./format.js";
import { repeat } from "./live.js";

const STATUS_MS = 10000;
const THEMES = [["", "As the system has it"], ["light", "Light"], ["dark", "Dark"]];

const ABOUT = [
  "Shoal makes one cluster for deep learning of the workstations of a lab, without a master. MIT licence.",
  "These pages are plain JavaScript of the same licence, with no library of others; nothing in them is loaded "
    + "from another host.",
  "The node that serves them uses libmicrohttpd and GnuTLS (LGPL 2.1 or later) and jansson (MIT); the daemon uses libzmq "
    + "(MPL 2.0 or LGPL 3), libsodium (ISC), LMDB (OpenLDAP), msgpack-c (BSL 1.0), libyaml (MIT), libarchive (BSD), OpenSSL "
    + "(Apache 2.0), zlib (zlib) and zstd (BSD).",
];

export function open() {
  const facts = h("dl", { class: "facts-list" });
  const poll = repeat(STATUS_MS, async () => drawFacts(facts, await get("/status")));
  const invites = h("div");
  get("/invites").then((document) => drawInvites(invites, document.invites), () => {});
  const sessions = h("div");
  const drawAgain = () => get("/sessions").then((document) => drawSessions(sessions, document.sessions, drawAgain), () => {});
  drawAgain();
  const panel = (title, ...content) => h("section", { class: "panel" }, h("h2", {}, title), content);
  return {
    title: "Settings",
    element: h("div", {}, h("h1", {}, "Settings"),
      panel("This session", facts, h("p", { class: "quiet" },
        "The command \"shoal open\" on the machine of this node opens another "
        + "session. Every other node of the mesh serves the same pages."), endButton()),
      panel("Sessions of browsers", sessions),
      panel("Theme", themeChoice()),
      panel("Invites", invites),
      panel("About", ABOUT.map((text) => h("p", {}, text)))),
    close: () => poll.stop(),
  };
}

function drawFacts(list, status) {
  const rows = [["Node", `${status.node.label} (${status.node.id})`], ["Mesh", status.mesh.name ?? status.mesh.id],
    ["Rights", session.readOnly ? "read only" : "all of the node's owner"],
    ["Version", status.version], ["Address", status.address], ["Up for", duration(status.uptime_s)],
      ["Records", whole(status.records)], ["Memory", bytes(status.memory_bytes)]];
  fill(list, rows.map(([title, text]) => h("div", {}, h("dt", {}, title), h("dd", {}, name(String(text))))));
}

/* Ends the session of this browser; the pages then have nothing to show. */
function endButton() {
  return h("button", { type: "button", class: "small", onclick: () => send("DELETE", "/session").then(() => window.location.reload(),
    (problem) => notice(problem.message, true)) }, "Log out");
}

function drawSessions(place, sessions, again) {
  const end = (one) => send("DELETE", `/sessions${path(one.id)}`).then(again, (problem) => notice(problem.message, true));
  fill(place, h("ul", { class: "plain" }, sessions.map((one) => h("li", {}, h("span", { class: "code-text" }, one.id),
    ` since ${fullTime(one.created_s * 1000)}, until ${fullTime(one.expires_s * 1000)}${one.read_only ? ", read only" : ""}`,
    one.is_own ? ", this one" : session.readOnly ? "" : [" ", h("button", { type: "button", class: "small", onclick: () => end(one) }, "End")]))));
}

function drawInvites(place, invites) {
  fill(place, invites.length === 0 ? h("p", { class: "quiet" }, "None. The command \"shoal invite\" makes one.")
    : h("ul", { class: "plain" },
    invites.map((one) => h("li", {}, h("span", { class: "code-text" }, one.id),
      ` by ${one.writer_label}, ${one.state}, until ${fullTime(one.expires_s * 1000)}`))));
}

function themeChoice() {
  const now = stored();
  return h("fieldset", { class: "choice" }, h("legend", { class: "unseen" }, "Theme"), THEMES.map(([value, title]) =>
    h("label", { class: "check" }, h("input", { type: "radio", name: "theme", value, checked: value === now,
      onchange: () => window.dispatchEvent(new CustomEvent("themechoice", { detail: value })) }), title)));
}

function stored() {
  try {
    return localStorage.getItem("shoal-theme") ?? "";
  } catch {
    return "";
  }
}
