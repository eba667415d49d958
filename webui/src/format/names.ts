/** "NVIDIA A100-SXM4-80GB" is "A100-SXM4-80GB" where space is short. */
export function shortModel(model: string): string {
  return model.replace(/^(NVIDIA|AMD|Tesla|GeForce)\s+/i, "").replace(/^(Tesla|GeForce)\s+/i, "");
}

/** The part of a GPU's UUID that distinguishes it from others. */
export function shortUuid(uuid: string): string {
  return uuid.replace(/^GPU-/, "").slice(0, 8);
}

export function taskName(task: { role: string; index: number }): string {
  return `${task.role}-${task.index}`;
}

const SIGNALS: Record<number, string> = {
  1: "SIGHUP",
  2: "SIGINT",
  6: "SIGABRT",
  7: "SIGBUS",
  8: "SIGFPE",
  9: "SIGKILL",
  11: "SIGSEGV",
  13: "SIGPIPE",
  15: "SIGTERM",
};

/** How a process ended, in a few words; "" while it has not. */
export function exitLabel(end: {
  exit_code: number | null;
  exit_signal: number | null;
  oom_killed: boolean;
}): string {
  if (end.oom_killed) return "out of memory";
  const signal =
    end.exit_signal ?? (end.exit_code && end.exit_code > 128 ? end.exit_code - 128 : 0);
  const name = SIGNALS[signal];
  if (name) return `${name} (${end.exit_code ?? 128 + signal})`;
  return end.exit_code === null ? "" : String(end.exit_code);
}

/** The same with a capital at its beginning. */
export function capitalize(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const collator = new Intl.Collator("en", { numeric: true });

/** Orders node-2 before node-10. */
export function compareNames(a: string, b: string): number {
  return collator.compare(a, b);
}

/** How the page speaks of what its reader may not know by name. */

/** Of a virtual cluster that the reader does not belong to. */
export const HIDDEN_VC_LABEL = "another virtual cluster";

/** A job that the reader may not see, of this virtual cluster; null: of another one. */
export function hiddenJobLabel(vc: string | null): string {
  return vc === null ? "another team's job" : `another job of ${vc}`;
}
