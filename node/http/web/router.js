/* Addresses: "#/path/parts?name=value". Every view is a link; what a page can be told (filter, order, zoomed range) is in
   its query. */

export function here() {
  const text = location.hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const parts = (mark < 0 ? text : text.slice(0, mark)).split("/").filter(Boolean).map(decode);
  return { parts, query: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(parts, query = {}) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== undefined
    && value !== ""));
  const text = asked.toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/* Changes the query of this address, without a new page and without an entry in the history. */
export function setQuery(changes) {
  const { parts, query } = here();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") {
      query.delete(name);
    } else {
      query.set(name, value);
    }
  }
  history.replaceState(null, "", link(parts, Object.fromEntries(query)));
}

export function go(parts, query) {
  location.hash = link(parts, query);
}
