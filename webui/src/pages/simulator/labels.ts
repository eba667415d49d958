import type { SimulatedRun, SimulationSummary } from "@/api/simulations";
import { policyLabel } from "@/features/simulations/labels";

/** What a simulation ran on: "team" or "the whole cluster". */
export function scopeOf({ virtual_cluster }: { virtual_cluster: string }): string {
  return virtual_cluster || "the whole cluster";
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

/** How much a figure is of that of the first run: "−12%"; nothing where that was 0. */
export function comparedTo(first: number, value: number): string {
  if (first === 0 || first === value) return "";
  const percent = Math.round((100 * (value - first)) / first);
  return `${percent > 0 ? "+" : "−"}${Math.abs(percent).toLocaleString("en")}%`;
}
