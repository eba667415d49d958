/** "NVIDIA A100-SXM4-80GB" is "A100-SXM4-80GB" where space is short. */
export function shortModel(model: string): string {
  return model.replace(/^(NVIDIA|AMD|Tesla|GeForce)\s+/i, "").replace(/^(Tesla|GeForce)\s+/i, "");
}

/** The part of a GPU's UUID that tells it from its neighbours. */
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
export function exitWords(end: {
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
