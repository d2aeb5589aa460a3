/* What keeps a page up to date: one stream of events for the whole tab, and questions that are repeated. Both stop while
   the tab is hidden; a browser has six connections to a host for all of its tabs. */

import { get, url } from "./api.js";
import * as banner from "./banner.js";

const RETRY_FIRST_MS = 500;
const RETRY_LAST_MS = 8000;

let current = null;
let questions = 0;

/* Follows a stream. `onDocument(document)` gets each document and returns true for the last; `onOpen()` is called
   whenever the stream begins anew, also where it could not go on because what was missed is not kept any more. A stream that
   another page had is closed. */
export function follow(address, query, onDocument, onOpen = () => {}) {
  current?.close();
  current = new Stream(url(address, query), onDocument, onOpen);
  return current;
}

class Stream {
  constructor(address, onDocument, onOpen) {
    this.address = address;
    this.onDocument = onDocument;
    this.onOpen = onOpen;
    this.retryMs = RETRY_FIRST_MS;
    this.over = false;
    this.onVisible = () => (document.hidden ? this.drop() : this.connect());
    document.addEventListener("visibilitychange", this.onVisible);
    this.connect();
  }

  connect() {
    if (this.over || this.source || document.hidden) {
      return;
    }
    clearTimeout(this.timer);
    this.source = new EventSource(this.address);
    this.source.onopen = () => {
      this.retryMs = RETRY_FIRST_MS;
      banner.clear("stream");
      this.onOpen();
    };
    this.source.onmessage = (message) => {
      if (this.onDocument(JSON.parse(message.data))) {
        this.close();
      }
    };
    this.source.addEventListener("reset", () => this.onOpen());
    this.source.addEventListener("end", () => this.close());
    this.source.addEventListener("refused", (message) => this.refused(JSON.parse(message.data)));
    this.source.addEventListener("lost", () => this.lost());
    this.source.onerror = () => this.lost();
  }

  /* The browser tells no reason, so the session is asked for: the node answers, or the session is over, or the node is
     silent. */
  lost() {
    this.drop();
    if (this.over) {
      return;
    }
    const waited = this.retryMs;
    this.retryMs = Math.min(2 * waited, RETRY_LAST_MS);
    this.timer = setTimeout(() => this.connect(), waited);
    get("/session").then(() => {
      banner.answered("stream");
      if (waited >= RETRY_LAST_MS) {
        banner.show("stream", "The node sends no news of its own at present; this page asks for them.");
      }
    }, (problem) => banner.report("stream", problem, () => this.again()));
  }

  /* The node will not send this: to ask again would not help. */
  refused({ error, detail }) {
    this.close();
    banner.show("stream", error ?? detail ?? "The node refuses the stream.", "error");
  }

  again() {
    this.drop();
    this.connect();
  }

  drop() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  close() {
    this.over = true;
    this.drop();
    banner.clear("stream");
    document.removeEventListener("visibilitychange", this.onVisible);
    if (current === this) {
      current = null;
    }
  }
}

/* Asks again and again, each time `ms` after the last answer, and at once when the tab is shown again. A failure goes to
   the banner. Returns an object with `now()` and `stop()`. */
export function repeat(ms, ask) {
  const state = { stopped: false, busy: false, wanted: false, timer: 0 };
  const subject = `question ${++questions}`;
  const run = async () => {
    clearTimeout(state.timer);
    if (state.stopped || document.hidden) {
      return;
    }
    if (state.busy) {
      state.wanted = true;
      return;
    }
    state.busy = true;
    state.wanted = false;
    try {
      await ask();
      banner.answered(subject);
    } catch (problem) {
      if (!state.stopped) {
        banner.report(subject, problem, run);
      }
    }
    state.busy = false;
    if (!state.stopped) {
      state.timer = setTimeout(run, state.wanted ? Math.min(ms, 300) : ms);
    }
  };
  const onVisible = () => run();
  document.addEventListener("visibilitychange", onVisible);
  run();
  return {
    now: run,
    stop() {
      state.stopped = true;
      clearTimeout(state.timer);
      banner.clear(subject);
      document.removeEventListener("visibilitychange", onVisible);
    },
  };
}

/* Calls `act` once, `ms` after the first of many calls. */
export function calm(ms, act) {
  let timer = 0;
  return () => {
    timer ||= setTimeout(() => {
      timer = 0;
      act();
    }, ms);
  };
}
