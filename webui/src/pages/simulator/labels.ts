import type { SimulatedRun, SimulationSummary } from "@/api/simulations";

/** What a simulation ran on: "team" or "the whole cluster". */
export function scopeOf({ virtual_cluster }: { virtual_cluster: string }): string {
  return virtual_cluster || "the whole cluster";
}

export function policyLabel(policy: string): string {
  const [name = "", parameters] = policy.split(":", 2);
  const words = name.replaceAll("_", " ");
  return parameters ? `${words} (${parameters})` : words;
}

/** "fifo", or where the cluster changes "fifo, as it is" and "fifo, changed". */
export function runLabel(run: SimulatedRun, runs: SimulatedRun[]): string {
  const policy = policyLabel(run.figures.policy);
  if (runs.every(({ scenario }) => scenario === "as_is")) return policy;
  return `${policy}, ${run.scenario === "as_is" ? "as it is" : "changed"}`;
}

export function stateLabel(state: SimulationSummary["state"]): string {
  return {
    QUEUED: "Waits for another simulation",
    RUNNING: "Running",
    SUCCEEDED: "Done",
    FAILED: "Failed",
    STOPPED: "Stopped",
  }[state];
}

/** The share of the jobs that ended, in percent. */
export function percentDone({
  jobs_ended,
  jobs_total,
}: {
  jobs_ended: number;
  jobs_total: number;
}): number {
  return jobs_total ? Math.min(100, Math.round((100 * jobs_ended) / jobs_total)) : 0;
}

/** How much a figure is of that of the first run: "−12%"; nothing where that was 0. */
export function comparedTo(first: number, value: number): string {
  if (first === 0 || first === value) return "";
  const percent = Math.round((100 * (value - first)) / first);
  return `${percent > 0 ? "+" : "−"}${Math.abs(percent).toLocaleString("en")}%`;
}
