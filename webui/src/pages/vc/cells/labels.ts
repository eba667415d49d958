import { pluralize } from "@/format/numbers";
import type { GpuLook, TreeCell } from "./treeCell";

/** GPUs on which no job is placed. */
export const UNUSABLE = "bad or cordoned";
const NO_OTHER = "bad, or on a cordoned node: no other job is placed on it";

export const STATE_LABELS: Record<GpuLook, string> = {
  free: "free",
  used: "in use",
  reserved: "reserved; the job on it is being preempted",
  bad: "bad, or on a cordoned node: no job is placed on it",
  "used-bad": `in use; ${NO_OTHER}`,
  lent: "lent to another team until it is needed",
};

/** A job that the reader may see. */
const STATE_LABELS_WITH_JOB: Partial<Record<GpuLook, string>> = {
  reserved: "reserved for",
  lent: "lent to the opportunistic job",
};

/** How a GPU is, or how many GPUs of a larger cell are how. */
export function stateLabel(treeCell: TreeCell): string {
  if (treeCell.leaf) return gpuLabel(treeCell);
  const parts = [`${treeCell.used} of ${pluralize(treeCell.gpus, "GPU")} in use`];
  if (treeCell.lent > 0) parts.push(`${treeCell.lent} lent out`);
  if (treeCell.bad > 0) parts.push(`${treeCell.bad} ${UNUSABLE}`);
  return parts.join(", ");
}

function gpuLabel({ state, job }: TreeCell): string {
  if (!job) return STATE_LABELS[state];
  if (state === "used-bad") return `in use by ${job.name}; ${NO_OTHER}`;
  return `${STATE_LABELS_WITH_JOB[state] ?? "in use by"} ${job.name}`;
}

/** "2 nodes of 8 A100": cells without a place, by what they are. */
export function countByLabel(treeCells: TreeCell[]): string {
  const found = new Map<string, number>();
  for (const { label: words } of treeCells) found.set(words, (found.get(words) ?? 0) + 1);
  return [...found].map(([words, number]) => `${number} × ${words}`).join(", ");
}
