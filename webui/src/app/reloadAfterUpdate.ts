const KEPT_AS = "skep-reloaded-at";
const ONCE_MS = 30_000;

/** A new version of the platform has other files: a page that was open across the update finds its
 * next part missing. Loading it anew once brings the new version; twice would be a loop. */
export function reloadAfterUpdate(): void {
  let reloads = false;
  addEventListener("vite:preloadError", (event) => {
    if (reloads) event.preventDefault(); // more than one part is missing
    if (reloads) return;
    const last = Number(sessionStorage.getItem(KEPT_AS));
    if (Date.now() - last < ONCE_MS) return;
    sessionStorage.setItem(KEPT_AS, String(Date.now()));
    reloads = true;
    event.preventDefault();
    location.reload();
  });
}
