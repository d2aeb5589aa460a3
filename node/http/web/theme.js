/* The theme, set before anything is drawn: what the user chose, else what the system has. A classic script, since modules
   run only after the first paint. The page tells a choice by the event "themechoice", and learns of a change by
   "themechange". */
(function () {
  const system = matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      return localStorage.getItem("shoal-theme");
    } catch {
      return null; /* A browser that refuses storage gets the system's theme. */
    }
  }

  function apply(choice) {
    const isDark = choice === "dark" || (choice !== "light" && system.matches);
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    window.dispatchEvent(new Event("themechange"));
  }

  system.addEventListener("change", () => apply(chosen()));
  window.addEventListener("themechoice", (event) => {
    try {
      localStorage.setItem("shoal-theme", event.detail);
    } catch {
      /* Without storage the choice holds for this page only. */
    }
    apply(event.detail);
  });
  apply(chosen());
})();
