import type { Attempt, Job, Task, TaskRole } from "@/api/types";

/** "http 20001, 20002; tf 20003". */
export function portsText(ports: Attempt["ports"]): string {
  return Object.entries(ports)
    .map(([label, numbers]) => `${label} ${numbers.join(", ")}`)
    .join("; ");
}

// Every task gets these, asked for or not.
const DEFAULT_PORTS = new Set(["ssh", "http"]);

/** Whether the job file names ports of its own. */
export function requestsPorts({ ports }: TaskRole): boolean {
  return Object.keys(ports).some((label) => !DEFAULT_PORTS.has(label));
}

/** How many tasks are ready, while they wait for the rest of the gang; null when none waits. */
export function readyTasks(job: Job, tasks: Task[]): number | null {
  if (job.begun_at !== null || job.placed_at === null) return null;
  const ready = tasks.filter(({ attempt }) => attempt?.index === job.attempt && attempt.ready_at);
  return ready.length || null;
}
