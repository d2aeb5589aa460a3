/* The program of the page: the session, the parts that all pages share, and which page belongs to which address. */

import { loadSession, session, get } from "./api.js";
import * as banner from "./banner.js";
import { fill, h, setText } from "./dom.js";
import { repeat } from "./live.js";
import { here, link } from "./router.js";
import { open as calendarPage } from "./page_calendar.js";
import { open as comparePage } from "./page_compare.js";
import { open as experimentPage } from "./page_experiment.js";
import { open as experimentsPage } from "./page_experiments.js";
import { open as meshPage } from "./page_mesh.js";
import { open as queuePage } from "./page_queue.js";
import { open as settingsPage } from "./page_settings.js";
import { open as trialPage } from "./page_trial.js";
import { open as usagePage } from "./page_usage.js";

const STATUS_MS = 5000;

/* `open(parts, query)` makes a page: { title, element, close }. */
const ROUTES = [
  { pattern: ["mesh"], open: meshPage, tab: "mesh" },
  { pattern: ["calendar"], open: calendarPage, tab: "calendar" },
  { pattern: ["usage"], open: usagePage, tab: "usage" },
  { pattern: ["queue"], open: queuePage, tab: "queue" },
  { pattern: ["experiments"], open: experimentsPage, tab: "experiments" },
  { pattern: ["experiments", null], open: experimentPage, tab: "experiments" },
  { pattern: ["experiments", null, "trials", null], open: trialPage, tab: "experiments" },
  { pattern: ["compare"], open: comparePage, tab: "compare" },
  { pattern: ["settings"], open: settingsPage, tab: "settings" },
];

const TABS = [["mesh", "Mesh"], ["calendar", "Calendar"], ["usage", "Usage"], ["queue", "Queue"],
  ["experiments", "Experiments"], ["compare", "Compare"], ["settings", "Settings"]];

const main = document.getElementById("main");
let shown = null;
let status = null;

function routeOf(parts) {
  return ROUTES.find(({ pattern }) => pattern.length === parts.length && pattern.every(
    (part, i) => part === null || part === parts[i]));
}

function drawTabs(tab) {
  fill(document.getElementById("pages"), TABS.map(([name, title]) =>
    h("a", { href: link([name]), "aria-current": name === tab ? "page" : null }, title)));
}

function show() {
  const { parts, query } = here();
  if (parts.length === 0) {
    history.replaceState(null, "", link(["mesh"]));
    show();
    return;
  }
  shown?.close?.();
  banner.clear("stream");
  const route = routeOf(parts);
  drawTabs(route?.tab);
  shown = route ? route.open(parts.filter((_, i) => route.pattern[i] === null), query)
    : { title: "No such page", element: h("div", {}, h("h1", {}, "No such page"),
      h("p", {}, "The address names no page of this node.")) };
  fill(main, shown.element);
  document.title = `${shown.title} – Shoal`;
}

/* Another page: its beginning is shown, and a screen reader reads from there. */
function turn() {
  show();
  window.scrollTo(0, 0);
  main.focus({ preventScroll: true });
}

function drawWhere() {
  const mesh = session.mesh || status?.mesh?.name;
  setText(document.getElementById("where"), [mesh, session.node].filter(Boolean).join(" · ")
    + (session.readOnly ? " · read only" : ""));
}

function signIn(problem) {
  const silent = problem.status === 0;
  fill(main, h("section", { class: "sign-in" },
    h("h1", {}, silent ? "This node does not answer" : "Sign in"),
    h("p", {}, silent ? "The daemon that served this page is gone, or is starting. The page goes on once it answers."
      : "A page of a node needs a session. On the machine of this node, in its owner's account, run:"),
    !silent && h("pre", { class: "code" }, "shoal open"),
    !silent && h("p", { class: "quiet" }, "The command opens this page with a link that works once, within a minute.")));
  document.title = "Sign in – Shoal";
}

async function start() {
  drawTabs(null);
  try {
    await loadSession();
  } catch (problem) {
    signIn(problem);
    setTimeout(start, 3000);
    return;
  }
  drawWhere();
  window.addEventListener("hashchange", turn);
  show();
  repeat(STATUS_MS, async () => {
    if (!session.open) {
      await loadSession();
    }
    status = await get("/status");
    banner.fromStatus(status);
    drawWhere();
  });
}

document.getElementById("skip").addEventListener("click", () => main.focus());
start();
