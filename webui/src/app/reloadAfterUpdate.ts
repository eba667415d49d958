const KEPT_AS = "skep-reloaded-at";
const ONCE_MS = 30_000;

/** A new version of the platform has other files: a page that was open across the update finds its
 * next part missing. Loading it anew once brings the new version; twice would be a loop. */
export function reloadAfterUpdate(): void {
  addEventListener("vite:preloadError", (event) => {
    const last = Number(sessionStorage.getItem(KEPT_AS));
    if (Date.now() - last < ONCE_MS) return;
    sessionStorage.setItem(KEPT_AS, String(Date.now()));
    event.preventDefault();
    location.reload();
  });
}
