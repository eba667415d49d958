// Runs before the first paint, so that a dark page never flashes white. A file of its own, because
// the page's security policy forbids inline scripts.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem("mantine-color-scheme-value");
  } catch {
    // Storage may be forbidden; the system's scheme is used then.
  }
  var dark =
    chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.setAttribute("data-mantine-color-scheme", dark ? "dark" : "light");
})();
