import { lazyRouteComponent } from "@tanstack/react-router";
import { lazy, type ComponentType } from "react";

const STORAGE_KEY = "skep-reloaded-at";
const INTERVAL_MS = 30_000;
const MAX_RELOADS = 3; // in that interval: more would be a loop

/** Loads the page anew when a part of it is missing, as after an update of the platform, whose files
 * have other names, or when the network changed while the part was on its way. */
export function reloadWhenPartsAreMissing(signal?: AbortSignal): void {
  let reloads = false;
  const listener = (event: Event) => {
    if (!reloads) {
      const now = Date.now();
      const recent = recentReloads().filter((at) => now - at < INTERVAL_MS);
      if (recent.length >= MAX_RELOADS) return;
      sessionStorage.setItem(STORAGE_KEY, JSON.stringify([...recent, now]));
      reloads = true;
      location.reload();
    }
    event.preventDefault();
  };
  addEventListener("vite:preloadError", listener, signal && { signal });
}

function recentReloads(): number[] {
  const stored: unknown = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "[]");
  return Array.isArray(stored) ? stored.map(Number) : [];
}

/** The component `name` of a module that is loaded when a route needs it. */
export function lazyPage<Name extends string>(
  load: () => Promise<Record<Name, ComponentType>>,
  name: Name,
) {
  return lazyRouteComponent(() => load().then(orReload), name);
}

/** The default component of a module that is loaded when it is shown first. */
export function lazyPart<Props>(load: () => Promise<{ default: ComponentType<Props> }>) {
  return lazy(() => load().then(orReload));
}

/** Vite gives no module when the error of its load was handled above. Nothing is to be shown then:
 * the page is about to be left. */
function orReload<Module>(module: Module | undefined): Module | Promise<Module> {
  return module ?? new Promise<Module>(() => {});
}
