import type { Attempt, Job, JobSummary, Task, TaskState } from "@/api/types";
import { taskName } from "@/format/names";
import { formatBytesOf, pluralize } from "@/format/numbers";

/** Tasks of the whole job by the state of their newest attempt. */
export function taskStates(job: Job): Partial<Record<TaskState, number>> {
  const sum: Partial<Record<TaskState, number>> = {};
  for (const role of job.task_roles) {
    for (const [state, number] of Object.entries(role.states) as [TaskState, number][]) {
      sum[state] = (sum[state] ?? 0) + number;
    }
  }
  return sum;
}

/** One sentence: why it waits, what it does, how it ended. */
export function jobStatusText(job: Job): string {
  const states = taskStates(job);
  switch (job.state) {
    case "WAITING":
      if (job.wait_reason) return job.wait_reason.message;
      return job.placed_at
        ? "It has its GPUs; the nodes pull the image and make the containers."
        : "The scheduler looks at it in its next round.";
    case "RUNNING":
      return runningText(states.RUNNING ?? 0, job.tasks);
    case "STOPPING":
      return `Being stopped: ${pluralize((states.RUNNING ?? 0) + (states.STOPPING ?? 0), "task")} to end.`;
    case "SUCCEEDED":
      return job.exit_reason?.message ?? "It ended well.";
    default:
      return job.exit_reason?.message ?? "It was stopped.";
  }
}

/** Whether the node of the task's present attempt pulls its image. */
export function isPulling({ state, attempt }: Task): boolean {
  return state === "PREPARING" && attempt?.phase === "pulling";
}

/** "43 %, 2.1 of 4.9 GB": how far a pull is. */
export function pullText({ pull_percent, pull_bytes, pull_total_bytes }: Attempt): string {
  const percent = `${pull_percent ?? 0} %`;
  return pull_bytes ? `${percent}, ${formatBytesOf(pull_bytes, pull_total_bytes)}` : percent;
}

/** One sentence on the pulls of a job that did not begin, by the slowest; null: none is pulled. */
export function jobPullText(tasks: Task[]): string | null {
  const attempts = tasks.flatMap((task) => (isPulling(task) && task.attempt ? [task.attempt] : []));
  const [slowest] = attempts.toSorted((a, b) => (a.pull_percent ?? 0) - (b.pull_percent ?? 0));
  if (!slowest) return null;
  const nodes = new Set(attempts.map(({ node }) => node)).size;
  if (nodes === 1) return `Pulling image, ${pullText(slowest)}.`;
  return `Pulling image on ${nodes} nodes; the slowest is ${slowest.node}: ${pullText(slowest)}.`;
}

function runningText(tasks: number, all: number): string {
  if (all === 1 && tasks === 1) return "Its task is running.";
  const verb = tasks === 1 ? "is" : "are";
  if (tasks === all) return `All ${pluralize(all, "task")} ${verb} running.`;
  return `${tasks.toLocaleString("en")} of ${pluralize(all, "task")} ${verb} running.`;
}

/** What opens a shell in a task from a terminal of one's own. */
export function execCommand(job: { name: string }, task: { role: string; index: number }): string {
  return `skep exec ${job.name} ${taskName(task)}`;
}

/** The wait for the first placement. A job that ran and is in the queue again has waited several
 * times: this is the wait of now, and `again` says so. Null start: nothing to show. */
export function waitTime(job: JobSummary): {
  start: string | null;
  end: string | null;
  again: boolean;
} {
  const again = job.attempt > 1 || (job.attempt === 1 && job.placed_at === null);
  if (!again) return { start: job.submitted_at, end: job.placed_at ?? job.finished_at, again };
  return { start: null, end: null, again };
}
